//! Forms 1 to 7, ids, names, arguments.

use rookery_messages::chat::Arguments;
use serde_json::json;

use super::*;

const ALIASES: [&str; 7] =
    ["tool_call", "tool_calls", "toolcall", "tool-call", "invoke", "TOOL_CALL", "x:tool_call"];

fn ids(end: &ReplyEnd) -> Vec<Option<&str>> {
    end.calls.iter().map(|call| call.provider_id.as_deref()).collect()
}

// V-F1
#[test]
fn a_reply_that_is_json_with_tool_calls_gives_calls_ids_and_its_content_as_text() {
    let text = r#"{"content":"ok","tool_calls":[
        {"id":"c1","name":"shell","arguments":{"command":"ls"}},
        {"call_id":"c2","type":"function","function":{"name":"file_read","arguments":"{\"path\":\"a\"}"}},
        {"function":{"id":"c3","name":"time"}},
        {"tool_call_id":"c4","name":"shell","parameters":{"command":"ls"}}]}"#;
    holds(text, &[ls(), ("file_read", json!({"path": "a"})), ("time", json!({})), ls()], "ok");
    assert_eq!(ids(&read(text)), [Some("c1"), Some("c2"), Some("c3"), Some("c4")]);
    holds("\n [{\"name\":\"shell\",\"arguments\":{\"command\":\"ls\"}}] \n", &[ls()], "\n ");
    holds(r#"{"name":"shell","parameters":{"command":"ls"}}"#, &[ls()], "");
    holds(r#"{"name":"time"}"#, &[("time", json!({}))], "");
}

// V-F2, V-F6
#[test]
fn every_alias_of_the_tag_holds_json() {
    for alias in ALIASES {
        let json = r#"{"name":"shell","arguments":{"command":"ls"}}"#;
        holds(&format!("so <{alias}>\n{json}\n</{alias}> it is"), &[ls()], "so  it is");
        holds(&format!("<{alias}>{json}, {json}\n[{json}]</{alias}>"), &[ls(), ls(), ls()], "");
        let named = format!("<{alias} name=\"shell\" id='x1'>{{\"command\":\"ls\"}}</{alias}>");
        holds(&named, &[ls()], "");
        assert_eq!(ids(&read(&named)), [Some("x1")]);
    }
}

// V-F3
#[test]
fn a_tag_closed_by_another_alias_is_recovered_and_what_follows_is_kept() {
    let json = r#"{"name":"shell","arguments":{"command":"echo </tool_call>"}}"#;
    let call = ("shell", json!({"command": "echo </tool_call>"}));
    holds(&format!("a <tool_call>{json}</invoke> b"), std::slice::from_ref(&call), "a  b");
    holds(&format!("a <toolcall>{json}</ns:tool-call> b"), &[call], "a  b");
    holds("<tool_call>shell\ncommand: ls\n</invoke> b", &[ls()], " b");
}

// V-F4
#[test]
fn a_tag_that_is_never_closed_is_recovered_if_its_json_is_complete() {
    let json = r#"<tool_call>{"name":"shell","arguments":{"command":"ls"}}"#;
    holds(json, &[ls()], "");
    holds(&format!("{json}\n"), &[ls()], "");
    holds(&format!("{json}</tool_c"), &[ls()], "");
    holds(&format!("{json}\nLet me see."), &[ls()], "\nLet me see.");
    holds(&format!("{json} then </tool_call> so"), &[ls()], " then  so");
}

// V-F5
#[test]
fn bodies_of_elements_json_attributes_function_style_and_lines_are_the_same_call() {
    for body in [
        "<shell><command>ls</command></shell>",
        "<Shell>\n<command>\nls\n</command>\n</Shell>",
        "<shell>{\"command\":\"ls\"}</shell>",
        "<shell>ls</shell>",
        "<shell command=\"ls\"/>",
        "<shell command='ls'></shell>",
        "<invoke name=\"shell\"><parameter name=\"command\">ls</parameter></invoke>",
        "<function=shell><parameter=command>ls</parameter></function>",
        "<function=shell>\n<parameter=command>\nls\n</parameter>\n</function>\n",
        "<function name=\"shell\"><parameter name=\"command\">ls</parameter></function>",
        "<name>shell</name><arguments>{\"command\":\"ls\"}</arguments>",
        "<tool_name>shell</tool_name>\n<parameters><command>ls</command></parameters>",
        "<shell><command>ls</command>",
        "shell<command>ls</command>",
        "shell\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>",
        "shell>ls",
        "shell/command>ls",
        "shell command=\"ls\"",
        "shell {\"command\":\"ls\"}",
        "shell(command=\"ls\")",
        "shell(\"ls\")",
        "shell({\"command\": \"ls\"})",
        "shell>\ncommand: ls",
        "shell\ncommand: \"ls\"",
        "name: shell\ncommand: ls",
        "name: shell\narguments: {\"command\": \"ls\"}",
        "name: \"shell\"\narguments:\n  command: ls",
        "{tool => 'shell', args => {command => 'ls'}}",
    ] {
        holds(&format!("a <tool_call>{body}</tool_call> b"), &[ls()], "a  b");
    }
    holds("<tool_call name=\"shell\" command=\"ls\"/>.", &[ls()], ".");
    holds("<tool_call>time</tool_call>", &[("time", json!({}))], "");
    holds(
        "<tool_call><shell><command>ls</command></shell><time/></tool_call>",
        &[ls(), ("time", json!({}))],
        "",
    );
}

// V-F2
#[test]
fn an_invoke_element_takes_either_quote_and_parameters_as_text_or_json() {
    let call = ("shell", json!({"command": "echo <b> && \"x\"", "timeout": 5}));
    for quote in ['"', '\''] {
        holds(
            &format!(
                "<invoke name={quote}shell{quote}>\n<parameter name={quote}command{quote}>\
                 echo <b> && \"x\"</parameter><parameter name={quote}timeout{quote}>5</parameter>\
                 </invoke>"
            ),
            std::slice::from_ref(&call),
            "",
        );
    }
    holds(
        "<function_calls>\n<invoke name=\"time\"></invoke>\n<invoke name=\"shell\">\
         <parameter name=\"command\">ls</parameter></invoke>\n</function_calls> done",
        &[("time", json!({})), ls()],
        " done",
    );
    // A text argument that looks like a number stays a text.
    let digits = "<invoke name=\"shell\"><parameter name=\"command\">5</parameter></invoke>";
    holds(digits, &[("shell", json!({"command": "5"}))], "");
}

// V-F6
#[test]
fn fences_named_after_a_call_are_calls_and_the_text_around_them_is_kept() {
    let json = r#"{"name":"shell","arguments":{"command":"ls"}}"#;
    for word in ["tool_call", "tool-call", "toolcall", "invoke"] {
        let text = format!("Now:\n```{word}\n{json}\n{json}\n```\nand on");
        holds(&text, &[ls(), ls()], "Now:\n\nand on");
        holds(&format!("~~~~{word}\n{json}\n~~~~"), &[ls()], "");
        holds(&format!("```{word}\n{json}"), &[ls()], "");
    }
    holds("a\n```tool shell\n{\"command\":\"ls\"}\n```\nb", &[ls()], "a\n\nb");
    holds("```invoke\n<shell><command>ls</command></shell>\n```", &[ls()], "");
}

// V-F7
#[test]
fn bracket_perl_and_function_call_forms_are_calls() {
    for body in [
        "{tool => \"shell\", args => {--command \"ls\"}}",
        "{ tool => 'shell', args => {\n  command => 'ls',\n} }",
        "{\"name\":\"shell\",\"arguments\":{\"command\":\"ls\"}}",
    ] {
        holds(&format!("a [TOOL_CALL]{body}[/TOOL_CALL] b"), &[ls()], "a  b");
        holds(&format!("a\nTOOL_CALL\n{body}\n/TOOL_CALL\nb"), &[ls()], "a\n\nb");
        holds(&format!("[tool_call]\n{body}"), &[ls()], "");
    }
    holds("[TOOL_CALL]\nname: shell\ncommand: ls\n[/TOOL_CALL]", &[ls()], "");
    let call = ("file_read", json!({"path": "/x"}));
    for code in ["path>/x", "\npath>/x\n"] {
        let text = format!("<FunctionCall>file_read<code>{code}</code></FunctionCall>");
        holds(&text, std::slice::from_ref(&call), "");
        let text = format!("<FunctionCall>\nfile_read\n<code>{code}</code>\n</FunctionCall>");
        holds(&text, std::slice::from_ref(&call), "");
    }
}

// V-F12
#[test]
fn think_blocks_go_first_wherever_they_stand() {
    let json = r#"<tool_call>{"name":"shell","arguments":{"command":"ls"}}</tool_call>"#;
    holds(&format!("<think>hm {json}</think>\n\n{json}"), &[ls()], "");
    holds(&format!("<THINK>hm</think>{json}<think>so {json}"), &[ls()], "");
    let inside = json.replace("\"arguments\"", "<think>which?</think>\"arguments\"");
    holds(&inside, &[ls()], "");
    holds("<think>only this, and `<tool_call>`</think>", &[], "");
    assert_eq!(read("a<think>b</think>c<think>d").thinking, "bd");
    assert_eq!(read("a<think>b</think>c<think>d").text, "ac");
}

// V-F13
#[test]
fn arguments_encoded_more_than_once_are_unwrapped_and_texts_in_them_are_not() {
    let inner = json!({"path": "a", "content": "{\"b\": 1}"});
    let mut text = json!({"name": "file_write", "arguments": inner}).to_string();
    for _ in 0..3 {
        holds(&format!("<tool_call>{text}</tool_call>"), &[("file_write", inner.clone())], "");
        let value: Value = serde_json::from_str(&text).unwrap();
        let encoded = value["arguments"].to_string();
        text = json!({"name": "file_write", "arguments": encoded}).to_string();
    }
}

// V-F24
#[test]
fn arguments_that_are_no_json_are_an_invalid_call_and_never_an_empty_one() {
    for arguments in ["{bad", "5", "[]", "ls", "\\\"ls\\\""] {
        let text =
            format!(r#"<tool_call>{{"name":"shell","arguments":"{arguments}"}}</tool_call>"#);
        let end = read(&text);
        assert_eq!(end.malformed, None, "{text}");
        let parsed = Arguments::parse(&end.calls[0].arguments);
        assert!(matches!(parsed, Arguments::Invalid { .. }), "{text}: {parsed:?}");
    }
}

// V-F27
#[test]
fn a_name_in_another_case_takes_the_tools_own_spelling() {
    for name in ["shell", "Shell", "SHELL"] {
        let json = format!(r#"{{"name":"{name}","arguments":{{"command":"ls"}}}}"#);
        holds(&json, &[ls()], "");
        holds(&format!("<tool_call>{json}</tool_call>"), &[ls()], "");
        holds(&format!("<tool_call>{name}>ls</tool_call>"), &[ls()], "");
        holds(&format!("<FunctionCall>{name}<code>command>ls</code></FunctionCall>"), &[ls()], "");
    }
    let unknown = r#"<tool_call>{"name":"NoSuch","arguments":{}}</tool_call>"#;
    holds(unknown, &[("NoSuch", json!({}))], "");
}
