//! A new migration must rebuild the migrator.
fn main() {
    println!("cargo:rerun-if-changed=../../migrations");
}
