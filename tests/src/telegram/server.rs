//! The HTTP side.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::{BOT, Book, Called, Fault, Shared, Shown, TOKEN, html};

pub(super) async fn serve(shared: Arc<Shared>) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new()
        .route("/{bot}/{method}", post(call))
        .route("/file/{bot}/{*path}", get(file))
        .with_state(shared);
    let server = tokio::spawn(async move {
        let _ = axum::serve(crate::without_delay(listener), app).await;
    });
    (address, server)
}

type Refused = (u16, String, Value);

fn refuse(code: u16, text: &str) -> Refused {
    (code, text.to_owned(), Value::Null)
}

async fn call(
    State(shared): State<Arc<Shared>>,
    Path((bot, method)): Path<(String, String)>,
    body: Bytes,
) -> Response<Body> {
    let known = bot.strip_prefix("bot") == Some(TOKEN) && !shared.book.lock().revoked;
    if !known {
        return answer(Err(refuse(401, "Unauthorized")));
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let fault = note(&shared, &method, &body);
    let mut cut = false;
    match fault {
        Some(Fault::Refuse(code, text, parameters)) => {
            return answer(Err((code, text.to_owned(), parameters)));
        }
        Some(Fault::Page(code)) => {
            let mut page = Response::new(Body::from("<html>bad gateway</html>"));
            *page.status_mut() = StatusCode::from_u16(code).unwrap();
            return page;
        }
        Some(Fault::Hang) => return std::future::pending().await,
        Some(Fault::Wait(gate)) => gate.pass().await,
        Some(Fault::CutAfter) => cut = true,
        Some(Fault::Again) => {
            let mut book = shared.book.lock();
            if let Some(update) = book.last_confirmed.take() {
                book.updates.push_front(update);
                book.given_again += 1;
                return answer(Ok(Value::Array(
                    book.updates.iter().map(|(_, update)| update.clone()).collect(),
                )));
            }
        }
        None => {}
    }
    let result = if method == "getUpdates" {
        Ok(poll(&shared, &body).await)
    } else {
        perform(&mut shared.book.lock(), &method, &body)
    };
    shared.change();
    if cut {
        let broken = futures_util::stream::once(async {
            Err::<Bytes, _>(std::io::Error::other("the connection breaks"))
        });
        return Response::new(Body::from_stream(broken));
    }
    answer(result)
}

/// Writes the call down; gives the fault it meets.
fn note(shared: &Shared, method: &str, body: &Value) -> Option<Fault> {
    let mut book = shared.book.lock();
    book.calls.push(Called { method: method.to_owned(), body: body.clone(), at: Instant::now() });
    let chat = body["chat_id"].as_i64().unwrap_or_default();
    let fault = book
        .faults
        .get_mut(method)
        .and_then(std::collections::VecDeque::pop_front)
        .or_else(|| book.chat_faults.get(&(method.to_owned(), chat)).cloned());
    drop(book);
    shared.change();
    fault
}

fn answer(result: Result<Value, Refused>) -> Response<Body> {
    let (code, body) = match result {
        Ok(result) => (200, json!({ "ok": true, "result": result })),
        Err((code, description, parameters)) => {
            let mut body = json!({ "ok": false, "error_code": code, "description": description });
            if !parameters.is_null() {
                body["parameters"] = parameters;
            }
            (code, body)
        }
    };
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

async fn poll(shared: &Shared, body: &Value) -> Value {
    let mut changed = shared.changed.subscribe();
    let deadline = Instant::now() + Duration::from_secs(body["timeout"].as_u64().unwrap_or(0));
    if let Some(offset) = body["offset"].as_i64() {
        let held = {
            let book = shared.book.lock();
            let confirms = book.updates.front().is_some_and(|(number, _)| *number < offset);
            book.holds_confirmations && confirms
        };
        if held {
            std::future::pending::<()>().await;
        }
        let mut book = shared.book.lock();
        while book.updates.front().is_some_and(|(number, _)| *number < offset) {
            book.last_confirmed = book.updates.pop_front();
        }
    }
    shared.change();
    loop {
        changed.borrow_and_update();
        let updates: Vec<Value> =
            shared.book.lock().updates.iter().take(100).map(|(_, one)| one.clone()).collect();
        if !updates.is_empty() {
            return Value::Array(updates);
        }
        if tokio::time::timeout_at(deadline, changed.changed()).await.is_err() {
            return json!([]);
        }
    }
}

fn perform(book: &mut Book, method: &str, body: &Value) -> Result<Value, Refused> {
    match method {
        "getMe" => Ok(json!({
            "id": BOT, "is_bot": true, "first_name": "Rook", "username": "rook_bot" })),
        "setMyCommands" | "sendChatAction" => Ok(json!(true)),
        "answerCallbackQuery" => {
            let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
            book.answers.push((text("callback_query_id"), text("text")));
            Ok(json!(true))
        }
        "sendMessage" => send(book, body),
        "editMessageText" => edit(book, body),
        "getFile" => {
            let id = body["file_id"].as_str().unwrap_or_default();
            let found = book.files.contains_key(id);
            let path = format!("documents/{id}");
            found
                .then(|| json!({ "file_id": id, "file_path": path }))
                .ok_or_else(|| refuse(400, "Bad Request: invalid file_id"))
        }
        _ => Err(refuse(404, "Not Found: method not found")),
    }
}

/// The text people see, or Telegram's refusal.
fn visible(body: &Value) -> Result<String, Refused> {
    let raw = body["text"].as_str().unwrap_or_default();
    let text = match body["parse_mode"].as_str() {
        Some("HTML") => html::read(raw).map_err(|text| refuse(400, &text))?,
        _ => raw.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(refuse(400, "Bad Request: message text is empty"));
    }
    if text.encode_utf16().count() > 4_096 {
        return Err(refuse(400, "Bad Request: message is too long"));
    }
    Ok(text)
}

fn buttons(body: &Value) -> Vec<(String, String)> {
    let rows = body["reply_markup"]["inline_keyboard"].as_array().cloned().unwrap_or_default();
    let text = |button: &Value, key: &str| button[key].as_str().unwrap_or_default().to_owned();
    rows.iter()
        .flat_map(|row| row.as_array().cloned().unwrap_or_default())
        .map(|button| (text(&button, "text"), text(&button, "callback_data")))
        .collect()
}

fn send(book: &mut Book, body: &Value) -> Result<Value, Refused> {
    let chat =
        body["chat_id"].as_i64().ok_or_else(|| refuse(400, "Bad Request: chat not found"))?;
    let thread = body["message_thread_id"].as_i64();
    if chat > 0 && thread.is_some() {
        return Err(refuse(400, "Bad Request: message thread not found"));
    }
    let text = visible(body)?;
    book.next_message += 1;
    let id = book.next_message;
    book.messages.push(Shown {
        chat,
        thread,
        id,
        texts: vec![text.clone()],
        text,
        raw: body["text"].as_str().unwrap_or_default().to_owned(),
        buttons: buttons(body),
        answers: body["reply_parameters"]["message_id"].as_i64(),
    });
    Ok(json!({ "message_id": id, "date": 1, "chat": { "id": chat } }))
}

fn edit(book: &mut Book, body: &Value) -> Result<Value, Refused> {
    let text = visible(body)?;
    let (chat, id) = (body["chat_id"].as_i64(), body["message_id"].as_i64());
    let found = book.messages.iter_mut().find(|m| Some(m.chat) == chat && Some(m.id) == id);
    let message = found.ok_or_else(|| refuse(400, "Bad Request: message to edit not found"))?;
    let buttons = buttons(body);
    let raw = body["text"].as_str().unwrap_or_default();
    if message.raw == raw && message.buttons == buttons {
        let text = "Bad Request: message is not modified: specified new message content and reply \
                    markup are exactly the same as a current content";
        return Err(refuse(400, text));
    }
    message.raw = raw.to_owned();
    message.text.clone_from(&text);
    message.texts.push(text);
    message.buttons = buttons;
    Ok(json!({ "message_id": message.id, "date": 1, "chat": { "id": message.chat } }))
}

async fn file(
    State(shared): State<Arc<Shared>>,
    Path((bot, path)): Path<(String, String)>,
) -> Response<Body> {
    let mut book = shared.book.lock();
    book.downloads.push(path.clone());
    let id = path.strip_prefix("documents/").unwrap_or_default();
    let bytes = book.files.get(id).cloned().filter(|_| bot.strip_prefix("bot") == Some(TOKEN));
    drop(book);
    shared.change();
    match bytes {
        Some(bytes) => Response::new(Body::from(bytes)),
        None => {
            let mut missing = Response::new(Body::empty());
            *missing.status_mut() = StatusCode::NOT_FOUND;
            missing
        }
    }
}
