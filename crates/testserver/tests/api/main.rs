//! The server as clients see it, request by request.
#![allow(missing_docs)]

#[cfg(test)]
mod client;
#[cfg(test)]
mod discovery;
mod faults;
mod kube_client;
mod lists;
mod objects;
mod watches;
