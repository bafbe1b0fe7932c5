//! The one integration test binary: it uses the public API and the built command only.

mod architecture;
mod s3;
mod walk;
