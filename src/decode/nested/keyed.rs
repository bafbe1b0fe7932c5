//! Maps and multisets: values under keys, where equal keys are one.

use std::collections::HashMap;

use super::{Fit, Key, Misfit, Node, Work, begins, elements, members, misfit, show};
use crate::decode::cast::{Value, integer};
use crate::decode::rows::{Kind, Slot};

/// Which entry each key has, when equal keys are one.
#[derive(Default)]
struct Distinct {
    seen: HashMap<Vec<u8>, usize>,
    print: Vec<u8>,
}

impl Distinct {
    /// The entry of the last key of `keys`; a key that was there is taken away again.
    fn entry(&mut self, keys: &mut Node) -> (usize, bool) {
        let last = keys.len() - 1;
        self.print.clear();
        keys.print(last, &mut self.print);
        if let Some(entry) = self.seen.get(&self.print) {
            keys.truncate(last);
            return (*entry, false);
        }
        let entry = self.seen.len();
        self.seen.insert(self.print.clone(), entry);
        (entry, true)
    }
}

pub(super) fn object_map(text: &[u8], slot: Slot, keys: &mut Node, values: &mut Node, work: &mut Work) -> Fit {
    let mut entries: Vec<(Key<'_>, Slot)> = Vec::new();
    let mut distinct = Distinct::default();
    members(text, slot, |key, value| {
        keys.push_key(key)?;
        match distinct.entry(keys) {
            (_, true) => entries.push((key, value)),
            (entry, false) => entries[entry] = (key, value),
        }
        Ok(())
    })?;
    entries.into_iter().try_for_each(|(key, value)| values.push(text, value, work).map_err(|e| e.within(|| key.segment())))
}

pub(super) fn pairs_map(text: &[u8], slot: Slot, keys: &mut Node, values: &mut Node, work: &mut Work) -> Fit {
    let mut entries: Vec<(usize, Slot)> = Vec::new();
    let mut distinct = Distinct::default();
    elements(text, slot, |i, pair| {
        let (key, value) = entry(text, pair, work.reject_new).map_err(|e| e.within(|| format!("[{i}]")))?;
        if let Kind::Null | Kind::Absent = key.kind {
            let what = if key.kind == Kind::Null { "is null" } else { "is absent" };
            return Err(misfit(format!(": the key {what}, and a map's key cannot be")).within(|| format!("[{i}]")));
        }
        keys.push(text, key, work).map_err(|e| e.within(|| ".key".to_owned()).within(|| format!("[{i}]")))?;
        match distinct.entry(keys) {
            (_, true) => entries.push((i, value)),
            (entry, false) => entries[entry] = (i, value),
        }
        Ok(())
    })?;
    let at = |i| move || format!("[{i}]");
    entries.into_iter().try_for_each(|(i, v)| values.push(text, v, work).map_err(|e| e.within(|| ".value".to_owned()).within(at(i))))
}

/// Key and value of `[key, value]` or `{"key": .., "value": ..}`.
fn entry(text: &[u8], pair: Slot, reject_new: bool) -> Result<(Slot, Slot), Box<Misfit>> {
    let (mut key, mut value, mut more) = (Slot::default(), Slot::default(), false);
    let other = || misfit(format!(": {} is neither [key, value] nor {{\"key\": .., \"value\": ..}}", show(text, pair)));
    if begins(text, pair, b'[') {
        let mut n = 0;
        elements(text, pair, |i, slot| {
            *(if i == 0 { &mut key } else { &mut value }) = slot;
            n = i + 1;
            Ok(())
        })?;
        more = n != 2;
    } else if begins(text, pair, b'{') {
        members(text, pair, |name, slot| {
            match name.value(&mut Vec::new()) {
                Value::Text(b"key") => key = slot,
                Value::Text(b"value") => value = slot,
                _ => more |= reject_new,
            }
            Ok(())
        })?;
    } else {
        return Err(other());
    }
    if more { Err(other()) } else { Ok((key, value)) }
}

pub(super) fn object_multiset(text: &[u8], slot: Slot, items: &mut Node, counts: &mut Vec<i32>) -> Fit {
    let mut found: Vec<(Key<'_>, Slot)> = Vec::new();
    let mut distinct = Distinct::default();
    members(text, slot, |key, count| {
        items.push_key(key)?;
        match distinct.entry(items) {
            (_, true) => found.push((key, count)),
            (entry, false) => found[entry] = (key, count),
        }
        Ok(())
    })?;
    for (key, count) in found {
        let span = &text[count.start as usize..count.end as usize];
        let number = if count.kind == Kind::Number { Value::Number(span) } else { Value::Json(span) };
        match integer(number, 1, i32::MAX.into()).ok().and_then(|n| i32::try_from(n).ok()) {
            Some(n) => counts.push(n),
            None => {
                let why = format!(": {} is not a count, a whole number from 1 to {}", show(text, count), i32::MAX);
                return Err(misfit(why).within(|| key.segment()));
            }
        }
    }
    Ok(())
}

pub(super) fn array_multiset(text: &[u8], slot: Slot, items: &mut Node, counts: &mut Vec<i32>, work: &mut Work) -> Fit {
    let base = counts.len();
    let mut distinct = Distinct::default();
    elements(text, slot, |i, element| {
        if element.kind == Kind::Null {
            return Err(misfit(" is null, and a value of a multiset cannot be".to_owned()).within(|| format!("[{i}]")));
        }
        items.push(text, element, work).map_err(|e| e.within(|| format!("[{i}]")))?;
        match distinct.entry(items) {
            (_, true) => counts.push(1),
            (entry, false) => counts[base + entry] = counts[base + entry].saturating_add(1),
        }
        Ok(())
    })
}
