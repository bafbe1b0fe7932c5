//! What any store has to do, one call after another.

use bytes::Bytes;

use super::Check;
use crate::error::Result;
use crate::store::{Entry, Failure, Store, Verdict};

/// How often each promise of "seen at once" is put to the test.
const TIMES: usize = 20;
/// More than one part of an upload.
const UPLOAD: usize = (8 << 20) + 1;

pub(super) async fn write_and_read(store: &Store) -> Result<Check> {
    const NAME: &str = "write and read";
    let bytes = body(store, "first");
    store.put_new("first", bytes.clone()).await?;
    let back = store.get("first").await?;
    if back.as_ref() != Some(&bytes) {
        return Ok(Check::failed(NAME, format!("wrote {} bytes and read {}", bytes.len(), length(back))));
    }
    if store.size("first").await? != Some(bytes.len() as u64) {
        return Ok(Check::failed(NAME, "the size of an object is not that of what was written"));
    }
    let part = store.get_range("first", 2..5).await?;
    if part.as_deref() != bytes.get(2..5) {
        return Ok(Check::failed(NAME, "a range of bytes is not what was asked for"));
    }
    Ok(Check::ok(NAME, "whole objects, ranges and sizes"))
}

/// One after the other: most stores that know nothing of conditional creates are found out here.
pub(super) async fn create_twice(store: &Store) -> Result<Check> {
    const NAME: &str = "create twice";
    let (first, second) = (body(store, "a"), body(store, "b"));
    if let Err(failure) = store.create("twice", first.clone()).await {
        return match failure.verdict {
            Verdict::Exists => Ok(Check::failed(NAME, format!("a name that was never used is said to be taken: {}", failure.error))),
            _ => no_create(store, failure, NAME),
        };
    }
    match store.create("twice", second.clone()).await {
        Ok(()) => {
            return Ok(Check::failed(NAME, "a second create of the same name succeeds: conditional creates are not honoured here"));
        }
        Err(failure) if failure.verdict == Verdict::Exists => {}
        Err(failure) => return no_create(store, failure, NAME),
    }
    match store.get("twice").await? {
        Some(found) if found == first => Ok(Check::ok(NAME, "the second is refused, the first stays")),
        Some(found) if found == second => Ok(Check::failed(NAME, "the second create is refused, and yet its bytes replace the first")),
        other => Ok(Check::failed(NAME, format!("created {} bytes and read {}", first.len(), length(other)))),
    }
}

/// What a create came to that was neither carried out nor told that the name is taken.
fn no_create(store: &Store, failure: Failure, name: &'static str) -> Result<Check> {
    match failure.verdict {
        Verdict::Refused => Ok(Check::failed(name, format!("conditional creates are refused: {}", failure.error))),
        _ => Err(crate::Error::unavailable("the store does not answer a create")
            .at(store.url())
            .because(failure.error)
            .hint("run it again when the store answers")),
    }
}

pub(super) async fn read_after_create(store: &Store) -> Result<Check> {
    const NAME: &str = "read after create";
    let (mut late, mut old) = (0, 0);
    for i in 0..TIMES {
        let (name, bytes) = (format!("read/{i}"), body(store, "r"));
        // Some caches remember for a while that there was nothing.
        if store.get(&name).await?.is_some() {
            old += 1;
        }
        store.put_new(&name, bytes.clone()).await?;
        if store.get(&name).await?.as_ref() != Some(&bytes) {
            late += 1;
        }
    }
    Ok(match (old, late) {
        (0, 0) => Check::ok(NAME, format!("{TIMES} of {TIMES} objects are read as soon as they are written")),
        (0, _) => {
            Check::failed(NAME, format!("{late} of {TIMES} objects cannot be read after they were written: is there a cache in between?"))
        }
        _ => Check::failed(NAME, format!("{old} of {TIMES} names that nobody has written can be read")),
    })
}

/// A listing is what tells a start which checkpoint is the greatest, and a writer that it is fenced.
pub(super) async fn list_after_create(store: &Store) -> Result<Check> {
    const NAME: &str = "list after create";
    let mut late = 0;
    for i in 0..TIMES {
        store.put_new(&format!("list/{i:02}"), body(store, "l")).await?;
        let listed = store.list("list").await?;
        if listed.len() != i + 1 || listed.last().is_none_or(|e| e.name != format!("{i:02}")) {
            late += 1;
        }
    }
    if late > 0 {
        let what = format!("{late} of {TIMES} listings are not what was there when they were asked for: a fenced process would go on");
        return Ok(Check::failed(NAME, what));
    }
    let deep = store.list_all("").await?;
    if !deep.iter().any(|e| e.name == "list/00" && e.size > 0) {
        return Ok(Check::failed(NAME, "a listing of everything below a directory leaves objects out"));
    }
    Ok(Check::ok(NAME, format!("{TIMES} of {TIMES} objects are listed as soon as they are written")))
}

pub(super) async fn list_after_delete(store: &Store) -> Result<Check> {
    const NAME: &str = "list after delete";
    let names = |entries: Vec<Entry>| entries.into_iter().map(|e| e.name).collect::<Vec<_>>();
    let (mut listed, mut read) = (0, 0);
    for i in 0..TIMES {
        let name = format!("delete/{i:02}");
        store.put_new(&name, body(store, "d")).await?;
        store.delete(&name).await?;
        if !names(store.list("delete").await?).is_empty() {
            listed += 1;
        }
        if store.get(&name).await?.is_some() {
            read += 1;
        }
    }
    store.delete("delete/00").await?;
    // A slot that expiry has emptied can be written again.
    match store.create("delete/00", body(store, "again")).await {
        Ok(()) => {}
        Err(failure) if failure.verdict == Verdict::Exists => {
            return Ok(Check::failed(NAME, "a deleted name cannot be created again: does the bucket keep deleted objects?"));
        }
        Err(failure) => return no_create(store, failure, NAME),
    }
    Ok(match (listed, read) {
        (0, 0) => Check::ok(NAME, format!("{TIMES} of {TIMES} objects are gone as soon as they are deleted")),
        _ => Check::failed(NAME, format!("of {TIMES} deleted objects {listed} are still listed and {read} can still be read")),
    })
}

/// Hints and pins are the only objects that are ever replaced.
pub(super) async fn replace(store: &Store) -> Result<Check> {
    const NAME: &str = "replace";
    let mut old = 0;
    for _ in 0..TIMES {
        let bytes = body(store, "hint");
        store.put("replace", bytes.clone()).await?;
        if store.get("replace").await?.as_ref() != Some(&bytes) {
            old += 1;
        }
    }
    Ok(match old {
        0 => Check::ok(NAME, format!("{TIMES} of {TIMES} times the new bytes are read")),
        _ => Check::failed(NAME, format!("{old} of {TIMES} times other bytes are read than were written last")),
    })
}

pub(super) async fn upload(store: &Store) -> Result<Check> {
    const NAME: &str = "upload by parts";
    let piece = Bytes::from(store.env().uuid().as_bytes().repeat(UPLOAD / 16 + 1)).slice(..UPLOAD);
    let mut upload = store.upload("upload").await?;
    if let Err(e) = upload.write(piece.clone()).await {
        upload.abort().await;
        return Err(e);
    }
    // On a disk the file is there from the start; nothing refers to it.
    let early = !store.is_local() && store.get("upload").await?.is_some();
    upload.finish().await?;
    let back = store.get("upload").await?;
    if back.as_ref() != Some(&piece) {
        return Ok(Check::failed(NAME, format!("wrote {UPLOAD} bytes and read {}", length(back))));
    }
    if early {
        return Ok(Check::warning(NAME, "an object is visible before its upload is finished"));
    }
    Ok(Check::ok(NAME, format!("{UPLOAD} bytes")))
}

/// Partition directories hold what the values of their columns hold.
pub(super) async fn names(store: &Store) -> Result<Check> {
    const NAME: &str = "names";
    const ODD: [&str; 4] = ["dt=2026-01-31", "a%2Fb c", "ü+&", "x=1=2~!'()"];
    for name in ODD {
        let bytes = body(store, name);
        store.put_new(&format!("names/{name}/f"), bytes.clone()).await?;
        let listed = store.list_all("names").await?;
        if !listed.iter().any(|e| e.name == format!("{name}/f")) || store.get(&format!("names/{name}/f")).await? != Some(bytes) {
            return Ok(Check::failed(NAME, format!("an object below `{name}` is not listed or read under its name")));
        }
    }
    Ok(Check::ok(NAME, "`=`, `%`, `+`, blanks and letters beyond ASCII stay as they are"))
}

/// No two are the same.
fn body(store: &Store, who: &str) -> Bytes {
    Bytes::from(format!("lakeward doctor {who} {}", store.env().uuid()))
}

fn length(found: Option<Bytes>) -> String {
    found.map_or_else(|| "nothing".to_owned(), |bytes| format!("{} other bytes", bytes.len()))
}
