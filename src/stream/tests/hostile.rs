//! Whatever lies in the chain or in a table's registrations: an answer or an error, never a panic.

use proptest::prelude::*;
use serde_json::Value;

use super::rig::*;
use crate::error::Kind;
use crate::stream::Event;
use crate::stream::checkpoint::Checkpoint;

/// A chain whose greatest checkpoint has files pending; one that closes a lineage.
fn worlds() -> [World; 2] {
    let written_2 = |e: &Event| matches!(e, Event::Checkpointed { seq: 2, .. });
    let pending = World::new(&[("a", 25)]);
    pending.run(Setup::two().dying_on(written_2)).dead();
    let closing = pending.copy();
    closing.run(Setup::two().abandon(2).dying_on(|e| matches!(e, Event::LineageClosed { .. }))).dead();
    assert!(closing.checkpoints().pop().unwrap().close.is_some());
    [pending, closing]
}

/// Replaces one value somewhere inside.
fn mutate(value: &mut Value, dice: &mut Dice, with: &Value) {
    let inner: Option<&mut Value> = match value {
        Value::Object(map) if !map.is_empty() => {
            let n = usize::try_from(dice.roll(map.len() as u64)).unwrap();
            map.values_mut().nth(n)
        }
        Value::Array(list) if !list.is_empty() => {
            let n = usize::try_from(dice.roll(list.len() as u64)).unwrap();
            list.get_mut(n)
        }
        _ => None,
    };
    match inner {
        Some(inner) if dice.roll(6) != 0 => mutate(inner, dice, with),
        _ => *value = with.clone(),
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(0), Just(-1)].prop_map(Value::from),
        prop_oneof![Just(u64::MAX), Just(u64::MAX - 1), Just(1 << 63)].prop_map(Value::from),
        Just(serde_json::json!(1e300)),
        ".{0,12}".prop_map(Value::from),
        prop_oneof![Just("../../x"), Just(""), Just("sim://one"), Just("sim://two/")].prop_map(Value::from),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
        Just(serde_json::json!([{"version": 1}])),
        Just(serde_json::json!({"a": {"offset": u64::MAX}})),
    ]
}

#[test]
fn checkpoints_of_any_bytes_never_panic() {
    let greatest = worlds()[0].checkpoints().pop().unwrap().to_bytes().unwrap();
    proptest!(ProptestConfig::with_cases(400), |(bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>(), to in any::<u8>())| {
        prop_assert!(Checkpoint::from_bytes(&bytes, "p", 2).is_err());
        let mut flipped = greatest.to_vec();
        let at = at.index(flipped.len());
        flipped[at] = to;
        let _ = Checkpoint::from_bytes(&flipped, "p", 2);
        // The last byte is the newline after the object: without it nothing is missing.
        prop_assert!(at + 1 == flipped.len() || Checkpoint::from_bytes(&flipped[..at], "p", 2).is_err());
    });
}

#[test]
fn a_start_on_any_greatest_checkpoint_never_panics() {
    let worlds = worlds();
    proptest!(ProptestConfig::with_cases(150), |(seed in any::<u64>(), which in 0..2usize, with in odd_value(), twice in any::<bool>())| {
        let world = worlds[which].copy();
        let mut dice = Dice(seed);
        let seq = world.checkpoints().pop().unwrap().seq;
        let name = format!("chain/p/{seq:020}.json");
        let mut value: Value = serde_json::from_slice(&world.tree()[&name]).unwrap();
        for _ in 0..1 + usize::from(twice) {
            mutate(&mut value, &mut dice, &with);
        }
        world.put(&name, serde_json::to_vec(&value).unwrap());
        if let Some(Err(e)) = world.run(Setup::two()).result {
            prop_assert!(e.kind() != Kind::Internal, "{e}\n{value:#}");
        }
    });
}

#[test]
fn the_next_seq_is_always_there() {
    let world = worlds()[0].copy();
    let greatest = world.checkpoints().pop().unwrap();
    for seq in [u64::MAX, i64::MAX as u64, i64::MAX as u64 - 1] {
        let mut c = greatest.clone();
        (c.seq, c.identifier) = (seq, i64::MAX - 1);
        let world = world.copy();
        world.put(&format!("chain/p/{seq:020}.json"), c.to_bytes().unwrap());
        world.run(Setup::two()).error(Kind::Data);
    }
}

#[test]
fn registrations_and_pins_of_any_bytes_never_panic() {
    let world = worlds()[0].copy();
    for bytes in ["", "{", "[]", "{\"seq\":-1}", "{\"pipeline\":\"p\"}"] {
        let world = world.copy();
        world.put("one/_lakeward/p/00000000000000000009.json", bytes);
        let error = world.run(Setup::two()).error(Kind::Data).to_string();
        assert!(error.contains("one/_lakeward/p/00000000000000000009.json"), "{error}");
    }
    for bytes in ["", "{\"nextSnapshot\":-1}", "x"] {
        let world = world.copy();
        let user = world.checkpoints().pop().unwrap().user;
        world.put(&format!("one/consumer/consumer-{user}"), bytes);
        world.run(Setup::two()).well();
        world.exact(&Setup::two(), bytes);
    }
}
