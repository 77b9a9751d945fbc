//! The program `folio` with a fault in its stores: `FOLIO_FAULT` names it ([`Fault::name`]). For tests only.

use std::process::ExitCode;

use folio_storage::Stores;
use folio_storage_conformance::faults::{Fault, decorate};

fn main() -> ExitCode {
    folio::main(faulty)
}

fn faulty(stores: Stores) -> Stores {
    // The process that reads a document is started with this program and opens no stores.
    let name = std::env::var("FOLIO_FAULT").expect("FOLIO_FAULT names a fault");
    let fault = Fault::ALL.iter().copied().find(|fault| fault.name() == name);
    decorate(&stores, fault.unwrap_or_else(|| panic!("there is no fault {name:?}")))
}
