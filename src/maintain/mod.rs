//! Looking after a table: checks that read and change nothing.
