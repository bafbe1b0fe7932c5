//! A bucket behind a real S3 client. Runs against moto's server, or, with `LAKEWARD_TEST_S3=s3://BUCKET/DIRECTORY` and the usual `AWS_*`
//! variables, against any other.

mod doctor;
mod network;
pub(crate) mod proxy;
mod scenarios;
mod series;
pub(crate) mod server;

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use lakeward::publish::{Publication, publish};
use lakeward::store::{Store, StoreOptions};
use lakeward::{Env, Kind};

use self::server::{Server, settings};

const LOCATION: &str = "LAKEWARD_TEST_S3";

/// The settings come from the environment, which a process can only give to another one: so this starts the tests below again.
#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_bucket_of_moto_keeps_every_promise_of_a_store() {
    let moto = Server::moto();
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--include-ignored", "--test-threads=2", "s3::on_a_bucket::"])
        .env(LOCATION, "s3://lake/some dir")
        .envs(settings(&moto.address))
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&again.stdout).into_owned() + &String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success(), "{output}");
    assert!(output.contains("5 passed"), "{output}");
}

mod on_a_bucket {
    use super::*;

    /// The bucket, if there is one; else the test says nothing.
    fn bucket(patience: Duration) -> Option<Store> {
        let location = std::env::var(LOCATION).ok()?;
        let env = Env::real();
        // A fresh directory, so that a bucket can be used twice.
        let location = format!("{location}/{}", env.uuid());
        Some(Store::open(&location, &env, StoreOptions { patience, ..StoreOptions::default() }).unwrap())
    }

    #[tokio::test]
    #[ignore = "runs inside a_bucket_of_moto_keeps_every_promise_of_a_store, or with LAKEWARD_TEST_S3"]
    async fn of_eight_publishers_exactly_one_wins_each_name() {
        let Some(store) = bucket(Duration::from_secs(30)) else { return };
        let winners = Arc::new(Mutex::new(Vec::new()));
        for name in 0..20 {
            let name = format!("snapshot/snapshot-{name}");
            let (store, name) = (&store, &name);
            let one = |who: usize| async move {
                let body = Bytes::from(format!("by {who}"));
                publish(store, name, body, store.env().deadline(Duration::from_secs(30))).await.unwrap()
            };
            let results = join_all((0..8).map(one)).await;
            let won: Vec<_> = (0..8).filter(|who| results[*who] == Publication::Published).collect();
            assert_eq!(won.len(), 1, "{name}: {results:?}");
            let there = store.get(name).await.unwrap().unwrap();
            assert_eq!(there, format!("by {}", won[0]));
            assert!(results.iter().all(|r| *r == Publication::Published || *r == Publication::Taken(there.clone())));
            winners.lock().unwrap().push(won[0]);
        }
        assert_eq!(store.list("snapshot").await.unwrap().len(), 20);
    }

    #[tokio::test]
    #[ignore = "runs inside a_bucket_of_moto_keeps_every_promise_of_a_store, or with LAKEWARD_TEST_S3"]
    async fn publishing_the_same_bytes_again_finds_them() {
        let Some(store) = bucket(Duration::from_secs(30)) else { return };
        let again = || publish(&store, "n", Bytes::from_static(b"nonce 1"), store.env().deadline(Duration::from_secs(30)));
        assert_eq!(again().await.unwrap(), Publication::Published);
        assert_eq!(again().await.unwrap(), Publication::Published);
        let other = publish(&store, "n", Bytes::from_static(b"nonce 2"), store.env().deadline(Duration::from_secs(30)));
        assert_eq!(other.await.unwrap(), Publication::Taken(Bytes::from_static(b"nonce 1")));
    }

    #[tokio::test]
    #[ignore = "runs inside a_bucket_of_moto_keeps_every_promise_of_a_store, or with LAKEWARD_TEST_S3"]
    async fn what_is_put_is_read_listed_and_deleted_under_its_exact_name() {
        let Some(store) = bucket(Duration::from_secs(30)) else { return };
        let odd = "dt=a%2Fb c=ü+&/x.parquet";
        store.put_new(odd, Bytes::from_static(b"0123456789")).await.unwrap();
        store.put("hint", Bytes::from_static(b"1")).await.unwrap();
        store.put("hint", Bytes::from_static(b"22")).await.unwrap();
        assert_eq!(store.get(odd).await.unwrap().unwrap(), "0123456789");
        assert_eq!(store.get_range(odd, 2..5).await.unwrap().unwrap(), "234");
        assert_eq!(store.get_range(odd, 8..12).await.unwrap_err().kind(), Kind::Data);
        assert_eq!(store.get_range(odd, 20..22).await.unwrap_err().kind(), Kind::Data);
        assert_eq!(store.size("hint").await.unwrap(), Some(2));
        let names = |entries: Vec<lakeward::store::Entry>| entries.into_iter().map(|e| e.name).collect::<Vec<_>>();
        assert_eq!(names(store.list("").await.unwrap()), ["hint"]);
        assert_eq!(names(store.list_all("").await.unwrap()), [odd, "hint"]);
        store.delete("hint").await.unwrap();
        store.delete("hint").await.unwrap();
        assert_eq!(store.get("hint").await.unwrap(), None);
        assert_eq!(store.size("hint").await.unwrap(), None);
        assert!(store.list("no/such").await.unwrap().is_empty());
    }

    #[tokio::test]
    #[ignore = "runs inside a_bucket_of_moto_keeps_every_promise_of_a_store, or with LAKEWARD_TEST_S3"]
    async fn an_upload_of_several_parts_is_whole_and_an_aborted_one_is_not_there() {
        let Some(store) = bucket(Duration::from_secs(30)) else { return };
        let piece = |i: u8| Bytes::from(vec![i; 7 << 20]);
        let mut upload = store.upload("data").await.unwrap();
        for i in 0..4 {
            upload.write(piece(i)).await.unwrap();
        }
        assert_eq!(store.get("data").await.unwrap(), None, "not visible before finish");
        assert_eq!(upload.finish().await.unwrap(), 28 << 20);
        let expected: Vec<u8> = (0..4).flat_map(piece).collect();
        assert!(store.get("data").await.unwrap().unwrap() == expected);
        let mut dropped = store.upload("dropped").await.unwrap();
        dropped.write(piece(1)).await.unwrap();
        dropped.write(piece(2)).await.unwrap();
        dropped.abort().await;
        assert_eq!(store.get("dropped").await.unwrap(), None);
    }

    #[tokio::test]
    #[ignore = "runs inside a_bucket_of_moto_keeps_every_promise_of_a_store, or with LAKEWARD_TEST_S3"]
    async fn a_missing_bucket_is_invalid_at_once_and_never_empty() {
        if std::env::var_os(LOCATION).is_none() {
            return;
        }
        let env = Env::real();
        let store = Store::open(&format!("s3://no-such-{}/t", env.uuid()), &env, StoreOptions::default()).unwrap();
        let deadline = env.deadline(Duration::from_secs(300));
        let errors = [
            store.list("").await.unwrap_err(),
            store.get("n").await.unwrap_err(),
            store.put("n", Bytes::new()).await.unwrap_err(),
            publish(&store, "n", Bytes::from_static(b"x"), deadline).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
            assert!(error.to_string().contains("create the bucket"), "{error}");
        }
        assert!(env.monotonic() < Duration::from_secs(60), "not retried");
    }
}
