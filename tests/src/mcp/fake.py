"""An MCP server that misbehaves on purpose. Arguments: its folder, then its mode.

Modes: "" (well-behaved), "mute" (no answer to initialize until the file `go` is there), "exit" (complains
and ends), "parent" (starts a child that outlives it).
In its folder: `tools.json` {"lists": [[tool, ...], ...], "page": N}: each listing takes the next list, the
last one stays; `log` gets every message it receives, a line each. SIGUSR1 announces a changed list.
A call does what its argument `do` says; the others' meaning stands below.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time

home, mode = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
lock = threading.Lock()
listed = {"text": None, "index": -1}


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def announce():
    send({"method": "notifications/tools/list_changed"})


def read(name):
    with open(os.path.join(home, name), encoding="utf-8") as file:
        return file.read()


def note(line):
    with open(os.path.join(home, "log"), "a", encoding="utf-8") as file:
        file.write(line.rstrip("\n") + "\n")


def page(cursor):
    text = read("tools.json")
    plan = json.loads(text)
    if cursor is None:
        fresh = listed["text"] != text
        index = 0 if fresh else min(listed["index"] + 1, len(plan["lists"]) - 1)
        listed.update(text=text, index=index)
    tools, size, start = plan["lists"][listed["index"]], plan.get("page", 1000), int(cursor or 0)
    result = {"tools": tools[start:start + size]}
    if start + size < len(tools):
        result["nextCursor"] = str(start + size)
    return result


def words(text):
    return {"content": [{"type": "text", "text": text}]}


def call(number, params):
    arguments = params.get("arguments") or {}
    do = arguments.get("do", "echo")
    if do == "die":
        print("out of luck:", arguments.get("text", ""), file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if do == "hang":
        return
    if do == "announce":
        # The list changes while the call runs; the answer comes when the last reading has begun.
        if "tools" in arguments:
            with open(os.path.join(home, "tools.json"), "w", encoding="utf-8") as file:
                json.dump(arguments["tools"], file)
        for _ in range(arguments.get("times", 1)):
            announce()
        result = words("announced")
    elif do == "progress":
        token = params["_meta"]["progressToken"]
        send({"method": "notifications/progress", "params": {
            "progressToken": token, "progress": 1, "total": 2, "message": "half way"}})
        time.sleep(0.3)
        result = words("there")
    elif do == "picture":
        picture = base64.b64encode(b"\x07" * arguments.get("bytes", 16)).decode()
        result = {"isError": arguments.get("error", False), "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": picture, "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x:/y", "blob": "AQ=="}},
        ]}
    elif do == "env":
        result = words(os.environ.get(arguments["text"], ""))
    elif do == "refuse":
        send({"id": number, "error": {"code": -32000, "message": "not today"}})
        return
    else:
        result = words(f"{params['name']}: {arguments.get('text', '')}")
    send({"id": number, "result": result})


def answer(message):
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        while mode == "mute" and not os.path.exists(os.path.join(home, "go")):
            time.sleep(0.02)
        send({"id": number, "result": {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "fake", "version": "1"}}})
    elif method == "tools/list":
        send({"id": number, "result": page((message.get("params") or {}).get("cursor"))})
    elif method == "tools/call":
        threading.Thread(target=call, args=(number, message["params"]), daemon=True).start()
    elif method == "ping":
        send({"id": number, "result": {}})


# In a thread of its own: the handler may have interrupted a send.
signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=announce).start())
if mode == "exit":
    print("no configuration found", file=sys.stderr)
    sys.exit(1)
if mode == "parent":
    subprocess.Popen(["sleep", sys.argv[3]], stdin=subprocess.DEVNULL)
note(json.dumps({"pid": os.getpid()}))
for line in sys.stdin:
    note(line)
    answer(json.loads(line))
