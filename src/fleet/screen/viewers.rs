//! Whoever looks at a screen now, as its host sees them. Nobody is waited for.
//!
//! Each viewer has one drawing on its way at most: while a slow one takes it, the screen goes on without it, and what
//! it gets next is the screen as it is then. A viewer that says something else than a viewer would is let go.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use camino::Utf8PathBuf;
use rustix::event::PollFlags;

use super::frame::{Frame, Frames, Garbled};
use super::picture::{Purpose, Screen, View};
use crate::store::directory;
use crate::sys::pty::Size;
use crate::sys::socket;

/// Most viewers at once.
pub const MOST: usize = 32;
/// Bytes that are taken of one viewer before the others are looked at.
const PIECE: usize = 4096;

/// The viewers of one screen; the socket goes when they do.
#[derive(Debug)]
pub struct Viewers {
    listener: UnixListener,
    socket: Utf8PathBuf,
    label: String,
    all: Vec<Viewer>,
}

/// What those who type want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The size of their terminal, where one came or changed.
    pub size: Option<Size>,
    /// What they typed.
    pub keys: Vec<u8>,
}

/// Whether keys can be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// They can.
    Taken,
    /// Those from before have not reached the program yet.
    Later,
}

#[derive(Debug)]
struct Viewer {
    stream: UnixStream,
    frames: Frames,
    /// `None` until it has said what it wants.
    view: Option<View>,
    /// What is on its way, and how much of that was taken.
    drawing: Vec<u8>,
    taken: usize,
    /// The screen has changed since that was drawn.
    is_behind: bool,
    /// It gets what is on its way and nothing more.
    is_last: bool,
}

impl Viewers {
    /// Listens at a socket; `label` is how they call what they look at.
    pub fn listen(socket: Utf8PathBuf, label: String) -> io::Result<Self> {
        Ok(Self {
            listener: socket::listen(&socket)?,
            socket,
            label,
            all: Vec::new(),
        })
    }

    /// What is to be waited for.
    pub fn watched(&self, keys: Keys) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let mut watched = vec![(self.listener.as_fd(), PollFlags::IN)];
        for viewer in &self.all {
            let mut flags = PollFlags::empty();
            if !viewer.types() || keys == Keys::Taken {
                flags |= PollFlags::IN;
            }
            if viewer.is_busy() {
                flags |= PollFlags::OUT;
            }
            // One that went away would end every wait for nothing.
            if !flags.is_empty() {
                watched.push((viewer.stream.as_fd(), flags));
            }
        }
        watched
    }

    /// Lets viewers in, and takes what they say.
    pub fn hear(&mut self, screen: &Screen, keys: Keys) -> Wishes {
        while let Ok((stream, _)) = self.listener.accept() {
            let is_welcome = self.all.len() < MOST && socket::is_ours(&stream);
            if is_welcome && stream.set_nonblocking(true).is_ok() {
                self.all.push(Viewer::new(stream));
            }
        }
        let mut wishes = Wishes::default();
        let label = &self.label;
        self.all.retain_mut(|viewer| {
            if viewer.types() && keys == Keys::Later {
                return true;
            }
            viewer.hear(screen, label, &mut wishes).is_ok()
        });
        wishes
    }

    /// Says that the screen is another now.
    pub fn changed(&mut self) {
        for viewer in &mut self.all {
            viewer.is_behind = true;
        }
    }

    /// Draws the screen for whoever is behind and can take it.
    pub fn draw(&mut self, screen: &Screen) {
        self.all.retain_mut(|viewer| viewer.draw(screen).is_ok());
    }

    /// Sends on what is on its way.
    pub fn send(&mut self) {
        self.all.retain_mut(|viewer| viewer.send().is_ok());
    }

    /// Whether a person is at the keys.
    pub fn is_typed_at(&self) -> bool {
        self.all.iter().any(Viewer::types)
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        // What is left there is only a name that nobody uses again.
        drop(directory::remove_file(&self.socket));
    }
}

impl Viewer {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            frames: Frames::default(),
            view: None,
            drawing: Vec::new(),
            taken: 0,
            is_behind: false,
            is_last: false,
        }
    }

    fn types(&self) -> bool {
        let view = self.view.as_ref();
        view.is_some_and(|view| view.purpose() == Purpose::Type)
    }

    fn is_busy(&self) -> bool {
        self.taken < self.drawing.len()
    }

    /// Takes what it says; an error when it is to be let go.
    fn hear(&mut self, screen: &Screen, label: &str, wishes: &mut Wishes) -> io::Result<()> {
        let mut bytes = [0; PIECE];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.frames.feed(bytes.get(..count).unwrap_or_default()),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        let garbled = |_: Garbled| io::Error::from(ErrorKind::InvalidData);
        while let Some(frame) = self.frames.take().map_err(garbled)? {
            match (frame, &mut self.view) {
                (Frame::Look(size), None) if !self.is_last => {
                    self.begin(View::new(Purpose::Look, size, label));
                }
                (Frame::Type(size), None) if !self.is_last => {
                    let view = View::new(Purpose::Type, size, label);
                    wishes.size = Some(view.room());
                    self.begin(view);
                }
                (Frame::Peek, None) if !self.is_last => {
                    self.drawing = screen.text().join("\n").into_bytes();
                    self.is_last = true;
                    self.send()?;
                }
                (Frame::Resized(size), Some(view)) => {
                    view.resize(size);
                    self.is_behind = true;
                    if view.purpose() == Purpose::Type {
                        wishes.size = Some(view.room());
                    }
                }
                (Frame::Keys(keys), Some(view)) if view.purpose() == Purpose::Type => {
                    wishes.keys.extend(keys);
                }
                (
                    Frame::Look(_)
                    | Frame::Type(_)
                    | Frame::Peek
                    | Frame::Resized(_)
                    | Frame::Keys(_),
                    _,
                ) => return Err(ErrorKind::InvalidData.into()),
            }
        }
        Ok(())
    }

    fn begin(&mut self, view: View) {
        self.view = Some(view);
        self.is_behind = true;
    }

    fn draw(&mut self, screen: &Screen) -> io::Result<()> {
        if self.is_busy() || !self.is_behind {
            return Ok(());
        }
        let Some(view) = &mut self.view else {
            return Ok(());
        };
        self.drawing = view.draw(screen).into_bytes();
        self.taken = 0;
        self.is_behind = false;
        self.send()
    }

    fn send(&mut self) -> io::Result<()> {
        while let Some(rest) = self
            .drawing
            .get(self.taken..)
            .filter(|rest| !rest.is_empty())
        {
            match self.stream.write(rest) {
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.is_last {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, MOST, Viewers};
    use crate::fleet::screen::frame::Frame;
    use crate::fleet::screen::picture::Screen;
    use crate::sys::pty::Size;
    use camino::{Utf8Path, Utf8PathBuf};
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    const SIZE: Size = Size {
        rows: 10,
        columns: 40,
    };

    struct World {
        _kept: tempfile::TempDir,
        socket: Utf8PathBuf,
        viewers: Viewers,
        screen: Screen,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let socket = Utf8Path::from_path(directory.path()).unwrap().join("s");
            Self {
                _kept: directory,
                viewers: Viewers::listen(socket.clone(), "one".to_owned()).unwrap(),
                screen: Screen::new(SIZE),
                socket,
            }
        }

        fn comes(&mut self, frame: &Frame) -> UnixStream {
            let mut stream = UnixStream::connect(&self.socket).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream.write_all(&frame.bytes()).unwrap();
            stream
        }

        fn shows(&mut self, text: &str) {
            self.screen.feed(text.as_bytes());
            self.viewers.changed();
            self.turn();
        }

        fn turn(&mut self) {
            self.viewers.hear(&self.screen, Keys::Taken);
            self.viewers.draw(&self.screen);
            self.viewers.send();
        }

        /// What a viewer's terminal shows after what it got.
        fn seen(stream: &mut UnixStream, shown: &mut Screen) -> String {
            let mut bytes = Vec::new();
            // There is nothing more now.
            drop(stream.read_to_end(&mut bytes));
            shown.feed(&bytes);
            shown.text().join("\n")
        }
    }

    #[test]
    fn every_viewer_sees_the_screen_and_one_that_goes_costs_the_others_nothing() {
        let mut world = World::new();
        world.screen.feed(b"before");
        let (mut one, mut two) = (
            world.comes(&Frame::Look(SIZE)),
            world.comes(&Frame::Look(SIZE)),
        );
        world.turn();
        let (mut first, mut second) = (Screen::new(SIZE), Screen::new(SIZE));
        assert!(World::seen(&mut one, &mut first).starts_with("before"));
        assert!(World::seen(&mut two, &mut second).starts_with("before"));
        drop(one);
        world.shows(" and after");
        assert!(World::seen(&mut two, &mut second).starts_with("before and after"));
        assert_eq!(world.viewers.all.len(), 1);
        // One that looks on and types all the same is let go.
        two.write_all(&Frame::Keys(b"x".to_vec()).bytes()).unwrap();
        let wishes = world.viewers.hear(&world.screen, Keys::Taken);
        assert!(wishes.keys.is_empty() && world.viewers.all.is_empty());
        let socket = world.socket.clone();
        drop(world);
        assert!(!socket.exists(), "its socket is left behind");
    }

    #[test]
    fn a_slow_viewer_gets_the_last_screen_and_no_more_is_kept_for_it_than_one_drawing() {
        let mut world = World::new();
        let mut slow = world.comes(&Frame::Look(SIZE));
        world.turn();
        let mut longest = 0;
        for number in 0..20_000 {
            world.shows(&format!("\x1b[H{number} {}", "x".repeat(200)));
            longest = longest.max(world.viewers.all[0].drawing.len());
        }
        assert!(world.viewers.all[0].is_behind, "nothing was held back");
        assert!(longest < 10_000, "{longest} bytes are kept for it");
        let mut shown = Screen::new(SIZE);
        for _ in 0..1_000 {
            World::seen(&mut slow, &mut shown);
            world.turn();
            if !world.viewers.all[0].is_behind && !world.viewers.all[0].is_busy() {
                break;
            }
        }
        let seen = World::seen(&mut slow, &mut shown);
        assert!(seen.starts_with("19999 xxx"), "{seen}");
    }

    #[test]
    fn who_types_is_known_and_its_keys_and_its_size_are_wished_for() {
        let mut world = World::new();
        let mut typing = world.comes(&Frame::Type(SIZE));
        typing
            .write_all(&Frame::Keys(b"yes".to_vec()).bytes())
            .unwrap();
        let wishes = world.viewers.hear(&world.screen, Keys::Taken);
        // Its last line tells how to leave.
        assert_eq!(wishes.size, Some(Size { rows: 9, ..SIZE }));
        assert_eq!(wishes.keys, b"yes");
        assert!(world.viewers.is_typed_at());
        typing
            .write_all(&Frame::Keys(b"no".to_vec()).bytes())
            .unwrap();
        let later = world.viewers.hear(&world.screen, Keys::Later);
        assert!(later.keys.is_empty());
        assert_eq!(world.viewers.hear(&world.screen, Keys::Taken).keys, b"no");
        drop(typing);
        world.turn();
        assert!(!world.viewers.is_typed_at());
    }

    #[test]
    fn a_peek_is_the_text_once_and_there_is_an_end_to_viewers() {
        let mut world = World::new();
        world.screen.feed(b"one\r\ntwo");
        let mut peek = world.comes(&Frame::Peek);
        world.turn();
        peek.set_nonblocking(false).unwrap();
        let mut text = String::new();
        peek.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo");
        let _all: Vec<UnixStream> = (0..MOST).map(|_| world.comes(&Frame::Look(SIZE))).collect();
        world.turn();
        let mut late = UnixStream::connect(&world.socket).unwrap();
        world.turn();
        assert_eq!(late.read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(world.viewers.all.len(), MOST);
    }
}
