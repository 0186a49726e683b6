use bytes::Bytes;
use houston_objects::{Error, Objects};

/// What every store must do.
async fn behaves(objects: &Objects) {
    let large: Vec<Bytes> = (0..40_u8).map(|n| Bytes::from(vec![n; 500_000])).collect();
    objects.put("t/one", large).await.unwrap();
    let part = objects.part("t/one", 499_999..500_001).await.unwrap();
    assert_eq!(part[..], [0, 1]);
    assert_eq!(objects.part("t/one", 19_999_000..20_999_999).await.unwrap().len(), 1_000, "to its end");
    objects.put("t/one", vec![Bytes::from_static(b"new")]).await.unwrap();
    assert_eq!(objects.part("t/one", 0..99).await.unwrap()[..], *b"new", "it is replaced as a whole");
    objects.delete("t/one").await.unwrap();
    objects.delete("t/one").await.unwrap();
    let gone = objects.part("t/one", 0..1).await.unwrap_err();
    assert!(matches!(gone, Error::NotThere(_)), "{gone}");
    objects.check().await.unwrap();
}

#[tokio::test]
async fn folder_behaves_as_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Objects::open(&format!("file://{}", folder.path().display())).unwrap();
    behaves(&objects).await;
    let missing = Objects::open("file:///nowhere/at/all").unwrap_err().to_string();
    assert!(missing.contains("cannot be set up"), "{missing}");
}
