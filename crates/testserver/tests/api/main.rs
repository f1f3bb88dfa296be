//! The server as clients see it, request by request.
#![allow(missing_docs)]

#[cfg(test)]
mod client;
#[cfg(test)]
mod discovery;
mod faults;
mod kube_client;
#[cfg(test)]
mod kubectl;
mod lists;
mod namespaces;
mod objects;
#[cfg(test)]
mod protobuf;
mod refusals;
mod watches;
