//! `docs/configuration.md` is what the declarations say. `cargo xtask docs` writes it anew (it runs this test
//! with `BLESS=1`).

use std::path::Path;

#[test]
fn the_configuration_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let expected = tidegate_types::options::markdown();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).expect("docs/configuration.md can be read");
    let differs = found.lines().zip(expected.lines()).position(|(a, b)| a != b);
    assert!(
        found == expected,
        "docs/configuration.md is stale from line {}: run `cargo xtask docs`",
        differs.unwrap_or_else(|| found.lines().count().min(expected.lines().count())) + 1
    );
}
