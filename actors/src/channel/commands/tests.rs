use super::*;

// A088: commands never reach the model, and nothing else is one
#[test]
fn a_word_behind_a_slash_is_a_command_and_a_path_is_none() {
    let stop = |all| Some(Command::Stop { all });
    let choose = |name: &str| Some(Command::Model(Wish::Choose(name.to_owned())));
    let unknown = |word: &str| Some(Command::Unknown { word: word.to_owned() });
    for (text, command) in [
        ("/stop", stop(false)),
        ("  /STOP  ", stop(false)),
        ("/stop@rookery_bot", stop(false)),
        ("/stop all", stop(true)),
        ("/new", Some(Command::New)),
        ("/status", Some(Command::Status)),
        ("/help", Some(Command::Help)),
        ("/start deep-link", Some(Command::Help)),
        ("/model", Some(Command::Model(Wish::Show))),
        ("/model reset", Some(Command::Model(Wish::Reset))),
        ("/model other", choose("other")),
        ("/model\nvendor/large:7b", choose("vendor/large:7b")),
        ("/approve", Some(Command::Unaddressed)),
        ("/deny because", Some(Command::Unaddressed)),
        ("/dance", unknown("dance")),
        ("/dance with me", unknown("dance")),
        ("", None),
        ("stop", None),
        ("please /stop", None),
        ("/", None),
        ("/ stop", None),
        ("//stop", None),
        ("/etc/passwd is what?", None),
        ("/usr/bin", None),
        ("/stop@", None),
        ("/st\u{200b}op", None),
        ("/неизвестно", None),
    ] {
        assert_eq!(parse(text), command, "{text:?}");
    }
    for text in ["/stop it", "/new one", "/status now", "/model one two", "/help me"] {
        assert!(matches!(parse(text), Some(Command::Misused { .. })), "{text:?}");
    }
    assert_eq!(parse(&format!("/{}", "x".repeat(33))), None);
    for (word, _) in MENU {
        assert_eq!(parse(&format!("/{word}")).map(|command| command.as_str()), Some(word));
    }
}

#[test]
fn what_people_read_says_how_to_go_on() {
    assert_eq!(texts::stopped(1, 0, 0), "stopped");
    assert_eq!(texts::stopped(0, 0, 0), "nothing runs here");
    assert!(texts::stopped(1, 0, 2).ends_with("2 messages wait still: /stop all drops what waits"));
    assert_eq!(texts::stopped(1, 1, 0), "stopped; 1 message will not begin");
    assert_eq!(texts::amount(1_234_567), "1.2346");
    assert_eq!(texts::amount(7), "0.000007");
    let long = "x".repeat(500);
    let text = texts::of_nothing(&Command::Unknown { word: long }).unwrap();
    assert!(text.len() < 120 && text.contains("/help"), "{text}");
}
