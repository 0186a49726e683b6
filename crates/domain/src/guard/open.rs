//! Which files a call may read that names none of them, such as a search.

use std::sync::Arc;

use super::Layer;
use super::path::ArgumentPath;

/// Whether `path` is among the paths that every layer allows. A call that names a file is judged by
/// [`decide`](super::decide); one that lists files leaves out all others by itself.
#[must_use]
pub fn is_listed(layers: &[Arc<Layer>], path: &str) -> bool {
    // Most installations allow all paths.
    layers.iter().all(|layer| layer.paths.is_empty()) || is_allowed(layers, &ArgumentPath::new(path))
}

/// Whether every layer lets tools touch `path` without a question: a call that reads whatever matches leaves out all other
/// files by itself.
#[must_use]
pub fn is_open(layers: &[Arc<Layer>], path: &str) -> bool {
    let path = ArgumentPath::new(path);
    is_allowed(layers, &path)
        && layers.iter().all(|layer| layer.sensitive.first_match(&path.comparable).is_none())
}

fn is_allowed(layers: &[Arc<Layer>], path: &ArgumentPath) -> bool {
    let Some(within) = &path.within else { return false };
    layers.iter().all(|layer| layer.paths.is_empty() || layer.paths.is_match(within))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{GuardSettings, LayerKind};

    fn layer(kind: LayerKind, toml: &str) -> Arc<Layer> {
        let settings: GuardSettings = toml::from_str(toml).unwrap();
        Arc::new(Layer::compile(kind, "test", &settings).unwrap())
    }

    #[test]
    fn sensitive_files_and_those_of_no_allowed_path_are_closed() {
        let shipped = layer(LayerKind::Installation, include_str!("../../../../jobs/guards.toml"));
        let kind = layer(LayerKind::Kind, "paths = [\"docs/**\"]\nsensitive = [\"*.draft\"]");
        for (path, at_first, below) in [
            ("docs/a.md", true, true),
            ("a.md", true, false),
            ("docs/b.draft", true, false),
            ("docs/.env", false, false),
            ("docs/.ENV.local", false, false),
            ("docs/.ssh/config", false, false),
            ("docs/my-secrets.txt", false, false),
            ("../docs/a.md", false, false),
        ] {
            assert_eq!(is_open(std::slice::from_ref(&shipped), path), at_first, "{path}");
            assert_eq!(is_open(&[shipped.clone(), kind.clone()], path), below, "{path}");
        }
        for (path, listed) in [("docs/a.md", true), ("docs/.env", true), ("a.md", false), ("docs", false)] {
            assert!(is_listed(std::slice::from_ref(&shipped), path), "{path}");
            assert_eq!(is_listed(&[shipped.clone(), kind.clone()], path), listed, "{path}");
        }
    }
}
