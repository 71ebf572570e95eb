use std::collections::HashSet;

use rookery_messages::ids::AgentName;
use rookery_messages::memory::{Category, Forgotten, Meanings, MemoryFilter, MemoryScope, Source};
use rookery_messages::settings::Durability;
use uuid::Uuid;

use super::*;
use crate::memory::sqlite::SqliteMemoryOptions;

/// What the model knows to be the same thing.
const TOPICS: [&[&str]; 3] =
    [&["car", "automobile", "vehicle"], &["tea", "beverage"], &["rain", "weather", "umbrella"]];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mood {
    Fine,
    Down,
    Silent,
    /// Vectors of another length.
    Longer,
    /// Refuses whatever holds this word.
    Refuses(&'static str),
}

struct Model {
    name: &'static str,
    mood: Mutex<Mood>,
    asked: Mutex<Vec<Vec<String>>>,
}

impl Model {
    fn vector(&self, text: &str, more: usize) -> Vec<f32> {
        let words: HashSet<String> =
            text.to_lowercase().split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect();
        let about = TOPICS.iter().map(|topic| topic.iter().any(|word| words.contains(*word)));
        let mut vector: Vec<f32> = about.map(|about| if about { 1.0 } else { 0.0 }).collect();
        // What all texts have in common, and what one has for itself.
        vector.push(0.3);
        let own = words.iter().map(|word| word.len()).sum::<usize>() % 5;
        vector.extend((0..5 + more).map(|at| if at == own { 0.5 } else { 0.0 }));
        vector
    }
}

impl Embedder for Model {
    fn profile(&self) -> &str {
        "main"
    }

    fn model(&self) -> &str {
        self.name
    }

    fn dimensions(&self) -> Option<usize> {
        None
    }

    fn embed<'a>(
        &'a self,
        texts: &'a [String],
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelError>> {
        self.asked.lock().push(texts.to_vec());
        let mood = *self.mood.lock();
        let fails = |class| Err(ModelError::new(class, "not today"));
        Box::pin(async move {
            match mood {
                Mood::Silent => std::future::pending().await,
                Mood::Down => fails(ModelErrorClass::Server),
                Mood::Refuses(word) if texts.iter().any(|text| text.contains(word)) => {
                    fails(ModelErrorClass::InvalidRequest)
                }
                Mood::Longer => Ok(texts.iter().map(|text| self.vector(text, 1)).collect()),
                Mood::Fine | Mood::Refuses(_) => {
                    Ok(texts.iter().map(|text| self.vector(text, 0)).collect())
                }
            }
        })
    }
}

struct Rig {
    dir: tempfile::TempDir,
    model: Arc<Model>,
    memory: HybridMemory,
}

fn open(dir: &tempfile::TempDir, name: &'static str) -> (Arc<Model>, HybridMemory) {
    let path = dir.path().join("memory.db");
    let options = SqliteMemoryOptions { path, durability: Durability::Process, max_entries: 200 };
    let words = SqliteMemory::open(&options).unwrap();
    let model = Arc::new(Model { name, mood: Mutex::new(Mood::Fine), asked: Mutex::default() });
    let args = HybridArgs {
        embedder: Arc::clone(&model) as Arc<dyn Embedder>,
        likeness: Likeness { unrelated: 0.3, same: 0.8 },
        patience: Duration::from_millis(600),
        redactor: Arc::new(Redactor::new(["the-secret-word"])),
        observer: ObserverHandle::nobody(),
    };
    (model, HybridMemory::new(words, args))
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (model, memory) = open(&dir, "embed-1");
        Self { dir, model, memory }
    }

    async fn again(self, name: &'static str) -> Self {
        self.memory.close().await;
        let (model, memory) = open(&self.dir, name);
        Self { dir: self.dir, model, memory }
    }

    fn mood(&self, mood: Mood) {
        *self.model.mood.lock() = mood;
    }

    async fn put(&self, n: u128, content: &str) {
        let new = NewMemory {
            id: MemoryId(Uuid::from_u128(n)),
            agent: AgentName::new("home"),
            scope: MemoryScope::Agent,
            key: format!("note {n}"),
            content: content.to_owned(),
            category: Category::Core,
            source: Source::User,
            via: None,
            turn: None,
            at: jiff::Timestamp::from_second(1_000).unwrap(),
        };
        self.memory.store(new).await.unwrap();
    }

    /// Contents and scores, the best first.
    async fn ask(&self, text: &str) -> Vec<(String, f64)> {
        let filter =
            MemoryFilter { agent: Some(AgentName::new("home")), ..MemoryFilter::default() };
        let query = RecallQuery { filter, text: text.to_owned(), limit: 50 };
        let found = self.memory.recall(query).await.unwrap();
        found.into_iter().map(|one| (one.entry.content, one.score.unwrap())).collect()
    }

    async fn meanings(&self) -> Meanings {
        self.memory.coverage().await.unwrap().unwrap().meanings.unwrap()
    }

    /// Lets it read until this holds.
    async fn tended(&self, holds: impl Fn(&Meanings) -> bool) -> Meanings {
        let looked = async {
            loop {
                let meanings = self.meanings().await;
                if holds(&meanings) {
                    return meanings;
                }
                tokio::task::yield_now().await;
            }
        };
        let limited = timeout(Duration::from_secs(30), looked);
        tokio::select! {
            found = limited => found.unwrap(),
            () = self.memory.tend() => panic!("it stopped reading"),
        }
    }

    async fn all_read(&self) -> Meanings {
        self.tended(|meanings| meanings.missing == 0).await
    }

    fn vectors(&self) -> u64 {
        let conn = rusqlite::Connection::open(self.dir.path().join("memory.db")).unwrap();
        let count = "SELECT count(*) FROM memory_vectors WHERE length(vector) > 0";
        conn.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap().try_into().unwrap()
    }
}

// R6
#[tokio::test]
async fn what_means_the_same_is_found_without_a_common_word_and_the_best_of_a_bad_lot_scores_low() {
    let rig = Rig::new();
    rig.put(1, "The automobile is red.").await;
    rig.put(2, "She likes green tea.").await;
    rig.put(3, "Bring an umbrella on Monday.").await;
    assert_eq!(rig.ask("which colour has my vehicle").await, []);
    assert_eq!(rig.all_read().await.read, 3);
    let found = rig.ask("which colour has my vehicle").await;
    assert_eq!(found[0].0, "The automobile is red.");
    assert!(found[0].1 > 0.4, "{found:?}");
    assert!(found[1..].iter().all(|(_, score)| *score < 0.4), "{found:?}");
    // Nothing has to do with it: whatever comes is below the floor.
    let found = rig.ask("recite a poem for the wedding").await;
    assert!(found.iter().all(|(_, score)| *score < 0.4), "{found:?}");
    // Words and meaning together beat meaning alone.
    rig.put(4, "The vehicle is in the garage.").await;
    rig.all_read().await;
    assert_eq!(rig.ask("vehicle").await[0].0, "The vehicle is in the garage.");
    assert_eq!(rig.ask("  ").await, []);
}

// V-B8, I8
#[tokio::test(start_paused = true)]
async fn without_its_model_a_question_is_answered_by_words_and_the_model_is_left_alone_for_a_while()
{
    let rig = Rig::new();
    rig.mood(Mood::Down);
    rig.put(1, "The vehicle is red.").await;
    let asked = || rig.model.asked.lock().len();
    for _ in 0..3 {
        assert_eq!(rig.ask("vehicle").await.len(), 1);
    }
    assert_eq!((asked(), rig.meanings().await.trouble.as_deref()), (1, Some("not today")));
    // A silent one costs a question its patience, once.
    rig.mood(Mood::Silent);
    tokio::time::advance(FIRST_REST).await;
    let began = Instant::now();
    assert_eq!(rig.ask("vehicle").await.len(), 1);
    assert!((600..700).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    assert_eq!(rig.ask("vehicle").await.len(), 1);
    assert_eq!(asked(), 2);
    // It is back.
    rig.mood(Mood::Fine);
    tokio::time::advance(FIRST_REST * 2).await;
    rig.ask("vehicle").await;
    assert_eq!((asked(), rig.meanings().await.trouble), (3, None));
}

#[tokio::test]
async fn vectors_of_another_length_or_model_are_not_compared_and_all_is_read_again() {
    let rig = Rig::new();
    rig.put(1, "The automobile is red.").await;
    rig.all_read().await;
    rig.mood(Mood::Longer);
    assert_eq!(rig.ask("my vehicle").await, []);
    assert_eq!(rig.all_read().await.read, 1);
    assert_eq!(rig.ask("my vehicle").await.len(), 1);
    let rig = rig.again("embed-2").await;
    assert_eq!(rig.meanings().await.missing, 1);
    assert_eq!(rig.ask("my vehicle").await, []);
    rig.all_read().await;
    assert_eq!((rig.ask("my vehicle").await.len(), rig.vectors()), (1, 1));
}

#[tokio::test]
async fn many_entries_are_read_in_batches_and_one_that_is_refused_keeps_no_other_from_being_read() {
    let rig = Rig::new();
    for n in 0..40 {
        rig.put(n, if n == 7 { "an odd thing" } else { "The automobile is red." }).await;
    }
    rig.mood(Mood::Refuses("odd"));
    let meanings = rig.all_read().await;
    assert_eq!((meanings.read, meanings.refused), (39, 1));
    let sizes: Vec<usize> = rig.model.asked.lock().iter().map(Vec::len).collect();
    assert!(sizes.iter().all(|size| *size <= BATCH as usize), "{sizes:?}");
    // A model that refuses everything has a fault of its own.
    let rig = rig.again("embed-2").await;
    rig.mood(Mood::Refuses(""));
    let meanings = rig.tended(|meanings| meanings.trouble.is_some()).await;
    assert_eq!((meanings.read, meanings.refused, meanings.missing), (0, 0, 40));
}

// I12
#[tokio::test]
async fn no_configured_secret_goes_to_the_model_and_texts_are_bounded() {
    let rig = Rig::new();
    rig.put(1, &format!("the-secret-word {}", "x".repeat(8_000))).await;
    rig.all_read().await;
    rig.ask(&format!("the-secret-word {}", "ü".repeat(20_000))).await;
    for text in rig.model.asked.lock().iter().flatten() {
        assert!(!text.contains("the-secret-word") && text.len() <= LONGEST + 100, "{}", text.len());
    }
}

#[tokio::test]
async fn what_is_forgotten_or_superseded_leaves_no_vector_and_none_comes_back() {
    let rig = Rig::new();
    rig.put(1, "The automobile is red.").await;
    rig.put(2, "She likes green tea.").await;
    rig.all_read().await;
    let place = |n: u128, content: &str| NewMemory {
        id: MemoryId(Uuid::from_u128(n)),
        agent: AgentName::new("home"),
        scope: MemoryScope::Agent,
        key: "note 2".to_owned(),
        content: content.to_owned(),
        category: Category::Core,
        source: Source::User,
        via: None,
        turn: None,
        at: jiff::Timestamp::from_second(1_000).unwrap(),
    };
    rig.memory.store(place(3, "She likes coffee.")).await.unwrap();
    assert_eq!(rig.vectors(), 1);
    // Read before it was forgotten, kept after: the row's number is another entry's by then.
    let late = rig.memory.words.unread("embed-1", None, 9).await.unwrap();
    assert_eq!(late.len(), 1);
    let all = Forget { filter: MemoryFilter::default(), what: Forgotten::All };
    rig.memory.forget(all).await.unwrap();
    assert_eq!(rig.vectors(), 0);
    for n in 4..8 {
        rig.put(n, "Bring an umbrella.").await;
    }
    let vector = stored(&[1.0; 9]);
    rig.memory.words.keep("embed-1", vec![(late[0].clone(), vector)]).await.unwrap();
    assert_eq!(rig.vectors(), 0);
}

// B12
#[tokio::test]
async fn a_file_of_the_version_before_is_brought_up_to_date_with_all_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let conn = rusqlite::Connection::open(dir.path().join("memory.db")).unwrap();
    conn.execute_batch(include_str!("../sqlite/schema.sql")).unwrap();
    conn.execute_batch(
        "INSERT INTO memories (id, agent, key, content, category, source, created_at, updated_at) \
         VALUES (zeroblob(16), 'home', 'car', 'The automobile is red.', 'core', 2, 0, 0); \
         INSERT INTO memory_words (rowid, words, scope) VALUES (1, 'car automobile red', 'z686f6d65z'); \
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(conn);
    let (model, memory) = open(&dir, "embed-1");
    let rig = Rig { dir, model, memory };
    assert_eq!(rig.ask("automobile").await.len(), 1);
    rig.all_read().await;
    assert_eq!(rig.ask("my vehicle").await[0].0, "The automobile is red.");
}
