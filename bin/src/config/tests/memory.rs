//! Embeddings: what can give them, and what their numbers may be.

use super::*;

const PROVIDERS: &str = "[providers.main]\nkind='demo'\n[providers.far]\nkind='openai'\nmodel='m'\n\
     [agents.home]\nprovider='main'\n[memory]\nrecall_timeout_ms=500\n";

fn with(embeddings: &str) -> String {
    format!("{PROVIDERS}[memory.embeddings]\n{embeddings}\n")
}

#[test]
fn embeddings_have_defaults_that_leave_time_for_words() {
    let settings = loaded(&with("provider='far'\nmodel='embed-1'\ntimeout_ms=400"));
    let wanted = settings.memory.embeddings.unwrap();
    assert_eq!((wanted.unrelated_percent, wanted.same_percent, wanted.dimensions), (25, 65, None));
    assert_eq!(loaded("").memory.embeddings, None);
    let usual = loaded(
        "[providers.far]\nkind='ollama'\nmodel='m'\n[agents.home]\nprovider='far'\n\
         [memory.embeddings]\nprovider='far'\nmodel='nomic-embed-text'\n",
    );
    assert_eq!(usual.memory.embeddings.unwrap().timeout_ms, 600);
}

#[test]
fn embeddings_that_can_not_be_had_or_say_nothing_are_refused() {
    let good = "provider='far'\nmodel='embed-1'\ntimeout_ms=400\n";
    assert_eq!(lines(&with(good)), Vec::<String>::new());
    for (wrong, said) in [
        (
            "provider='fra'\nmodel='e'\ntimeout_ms=400",
            "memory.embeddings.provider: names no provider there is: `fra`",
        ),
        (
            "provider='main'\nmodel='e'\ntimeout_ms=400",
            "memory.embeddings.provider: names a profile whose kind has no embeddings",
        ),
        ("provider='far'\nmodel=' '\ntimeout_ms=400", "memory.embeddings.model: is blank"),
        (
            "provider='far'\nmodel='e'\ntimeout_ms=400\ndimensions=0",
            "memory.embeddings.dimensions: is out of range",
        ),
        (
            "provider='far'\nmodel='e'\ntimeout_ms=500",
            "memory.embeddings.timeout_ms: leaves no time",
        ),
        (
            "provider='far'\nmodel='e'\ntimeout_ms=400\nsame_percent=20",
            "memory.embeddings.same_percent: must be above",
        ),
        (
            "provider='far'\nmodel='e'\ntimeout_ms=400\nsame_percent=101",
            "memory.embeddings.same_percent: must be above",
        ),
    ] {
        let found = lines(&with(wrong));
        assert!(found.len() == 1 && found[0].contains(said), "{wrong}: {found:?}");
    }
}
