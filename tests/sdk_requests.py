"""Holds request bodies against the request types of the official Python SDKs.

One JSON document a line on standard input: {"kind": "anthropic", "body": {...}}. Prints what a type refuses
and exits with 1, or prints how many were taken. Fields that a type does not know are refused too.
"""

import json
import sys
import types as python_types
import typing

# The SDKs declare lists as Iterable, which pydantic checks only as it is consumed, that is never.
typing.Iterable = typing.List

import anthropic.types
import openai.types.chat
import openai.types.responses
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from google.genai import types as gemini
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

# What compatible servers know beside OpenAI's own fields.
COMPATIBLE = {"max_tokens"}


def forbid_unknown(package):
    """Makes every TypedDict of a package refuse keys that it does not declare."""
    seen, modules = set(), [package]
    while modules:
        module = modules.pop()
        if module in seen:
            continue
        seen.add(module)
        for value in vars(module).values():
            if is_typeddict(value):
                value.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
            elif isinstance(value, python_types.ModuleType):
                if value.__name__.startswith(package.__name__.split(".")[0] + ".types"):
                    modules.append(value)


for package in (anthropic.types, openai.types.chat, openai.types.responses):
    forbid_unknown(package)

MESSAGES = TypeAdapter(MessageCreateParamsStreaming)
COMPLETIONS = TypeAdapter(CompletionCreateParamsStreaming)
RESPONSES = TypeAdapter(ResponseCreateParamsStreaming)


def check_gemini(body):
    known = {"contents", "systemInstruction", "tools", "generationConfig"}
    assert set(body) <= known, f"unknown fields {set(body) - known}"
    taken = lambda kind, value: kind.model_validate_json(json.dumps(value))
    for content in body["contents"]:
        taken(gemini.Content, content)
    for tool in body.get("tools", []):
        taken(gemini.Tool, tool)
    if "systemInstruction" in body:
        taken(gemini.Content, body["systemInstruction"])
    if "generationConfig" in body:
        taken(gemini.GenerationConfig, body["generationConfig"])


CHECKS = {
    "anthropic": MESSAGES.validate_python,
    "openai": lambda body: COMPLETIONS.validate_python(
        {key: value for key, value in body.items() if key not in COMPATIBLE}
    ),
    "openai_responses": RESPONSES.validate_python,
    "gemini": check_gemini,
}


def main():
    taken, refused = 0, 0
    for line in sys.stdin:
        request = json.loads(line)
        check = CHECKS.get(request["kind"])
        if check is None:
            raise SystemExit(f"no type is known for {request['kind']}")
        try:
            check(request["body"])
            taken += 1
        except (ValidationError, AssertionError) as error:
            refused += 1
            if refused <= 3:
                print(f"{request['kind']} refuses {json.dumps(request['body'])}: {error}", file=sys.stderr)
    print(taken)
    return 1 if refused or not taken else 0


if __name__ == "__main__":
    sys.exit(main())
