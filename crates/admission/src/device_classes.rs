//! Device classes: they say which extended resource a claim's devices are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubequota_cluster::monitor::{Sink, Update};
use kubequota_cluster::{Monitor, MonitorOptions, Served};
use kubequota_core::evaluator::GroupResource;
use kubequota_core::inventory::DeviceClassView;
use kubequota_core::{FieldError, Metadata};
use kubequota_wire::json::Plain;
use tokio::time::sleep;

use crate::engine::Engine;

/// Whether a server has device classes is asked this often, until it has.
const PERIOD: Duration = Duration::from_secs(30);

/// Keeps what the engine knows of device classes right, for ever. A server without them has none.
pub(crate) async fn follow(engine: Arc<Engine>) {
    let id = GroupResource::new("resource.k8s.io", "deviceclasses");
    loop {
        match engine.cluster.discover().await {
            Ok(found) => {
                if let Served::At(versions) = found.served(&id) {
                    let shape = Plain::<DeviceClassView>::default();
                    let monitor =
                        Monitor::new(engine.cluster.clone(), versions, None, shape, MonitorOptions::default());
                    let listing = BTreeMap::new();
                    let never = monitor.run(DeviceClassSink { engine, listing }).await;
                    match never {}
                }
            }
            Err(error) => engine.trouble(
                "device classes",
                &format!("it is not known whether there are any: {error}"),
            ),
        }
        sleep(PERIOD).await;
    }
}

type DeviceClass = (Metadata, Result<DeviceClassView, FieldError>);

/// Takes what the monitor of device classes tells.
struct DeviceClassSink {
    engine: Arc<Engine>,
    listing: BTreeMap<String, Option<String>>,
}

impl DeviceClassSink {
    /// A class that can't be read is one without an extended resource, and is told of.
    fn extended(&self, (metadata, view): &DeviceClass) -> Option<String> {
        match view {
            Ok(view) => view.extended_resource().map(str::to_owned),
            Err(error) => {
                let about = format!("device class {}", metadata.name);
                self.engine.trouble(&about, &format!("can't be read: {error}"));
                None
            }
        }
    }
}

impl Sink<DeviceClass> for DeviceClassSink {
    async fn handle(&mut self, update: Update<DeviceClass>) {
        match update {
            Update::ListBegan(_) => self.listing.clear(),
            Update::Page(_, classes) => {
                for class in classes {
                    let extended = self.extended(&class);
                    self.listing.insert(class.0.name, extended);
                }
            }
            Update::ListEnded(_) => {
                let listed = std::mem::take(&mut self.listing);
                self.engine.update_device_classes(|inventory, now| {
                    inventory.list_device_classes(&listed, now);
                });
            }
            Update::Applied(class) => {
                let extended = self.extended(&class);
                self.engine.update_device_classes(|inventory, now| {
                    inventory.set_device_class(&class.0.name, extended.as_deref(), now);
                });
            }
            Update::Deleted((metadata, _)) => self.engine.update_device_classes(|inventory, now| {
                inventory.remove_device_class(&metadata.name, now);
            }),
            Update::Failed(failure) => self.engine.trouble("device classes", &failure.error.to_string()),
            Update::Bookmark(_) | Update::Recovered => {}
        }
    }
}
