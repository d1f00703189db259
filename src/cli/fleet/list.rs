//! `agent-fleet fleet list`.

use super::{App, Outcome};
use crate::error::Result;
use crate::fleet::files::FleetFiles;
use crate::fleet::listing::list;
use crate::fleet::locate::Place;

#[derive(Debug, clap::Args)]
pub(super) struct ListArguments {
    /// The runs of every checkout on this machine
    #[arg(long)]
    all: bool,
}

pub(super) fn run(app: &App, arguments: &ListArguments) -> Result<Outcome> {
    let runs = if arguments.all {
        FleetFiles::new(&app.context).runs()?
    } else {
        let place = Place::here(&app.context)?;
        place.files.runs_of(&place.key)?
    };
    app.view(&list(&runs))
}
