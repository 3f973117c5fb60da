//! What is told of what the server does.
