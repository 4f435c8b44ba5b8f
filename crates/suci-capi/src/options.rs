//! The settings of a node to be opened.

use crate::book;
use crate::error::{CONFIG, Failure};
use crate::handle::Handle;
use crate::pointer::{self, Growable};
use crate::text;
use std::ffi::{c_char, c_int};
use std::time::Duration;
use suci::{
    AcceptPolicy, ControllerChoice, Membership, Mode, Node, NodeBuilder, NodeId, WaitPolicy,
};

/// `SUCI_NO_LIMIT`.
pub(crate) const NO_LIMIT: u64 = u64::MAX;

/// `suci_node_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    pub(crate) size: u32,
    pub(crate) threads: u32,
    pub(crate) id: i64,
    pub(crate) listen: *const c_char,
    pub(crate) book: Handle,
    pub(crate) book_file: *const c_char,
    pub(crate) metrics: *const c_char,
    pub(crate) faults: *const c_char,
    pub(crate) accept: u32,
    pub(crate) mode: u32,
    pub(crate) controller: u32,
    pub(crate) wait: u32,
    pub(crate) controller_window: u64,
    pub(crate) spin: i64,
    pub(crate) rate_cap: u64,
    pub(crate) memory: u64,
    pub(crate) max_message: u64,
    pub(crate) send_queue: u64,
    pub(crate) rts_threshold: u64,
    pub(crate) max_peers: u64,
    pub(crate) silence_timeout: i64,
    pub(crate) give_up_after: i64,
    pub(crate) max_ack_delay: i64,
    pub(crate) max_datagram: u64,
    pub(crate) recv_buffer: u64,
    pub(crate) send_buffer: u64,
    pub(crate) recv_slot: u64,
    pub(crate) allow_insecure_network: u8,
    pub(crate) payload_checksum: u8,
    pub(crate) unattended: u8,
    pub(crate) keep_alive: u8,
    pub(crate) statistics: u8,
    pub(crate) ecn: u8,
    pub(crate) gso: u8,
    pub(crate) gro: u8,
    pub(crate) reuse_port: u8,
    pub(crate) only_v6: u8,
    pub(crate) ignore_supervision: u8,
    pub(crate) reserved: [u8; 5],
    pub(crate) key_file: *const c_char,
    pub(crate) cluster: *const c_char,
    pub(crate) node_key_file: *const c_char,
    pub(crate) public_keys_file: *const c_char,
}

// SAFETY: `repr(C)`, the size comes first, and integers and pointers take any bytes.
unsafe impl Growable for NodeOptions {
    const NAME: &'static str = "suci_node_options";
    const SMALLEST: usize = 208;
}

/// Returns nanoseconds as C has them.
pub(crate) fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns a time that must not be negative.
pub(crate) fn time(nanos: i64, name: &str) -> Result<Duration, Failure> {
    let nanos = u64::try_from(nanos);
    nanos
        .map(Duration::from_nanos)
        .map_err(|_| out_of_range(name, "a time of 0 or more nanoseconds"))
}

fn out_of_range(name: &str, allowed: &str) -> Failure {
    Failure::new(
        CONFIG,
        format!("{name} is out of its range: it must be {allowed}"),
    )
}

/// Returns a length, which is at most what memory can have.
fn length(value: u64, name: &str) -> Result<usize, Failure> {
    let value = usize::try_from(value)
        .ok()
        .filter(|value| isize::try_from(*value).is_ok());
    value.ok_or_else(|| out_of_range(name, "a number of bytes or peers that can exist"))
}

/// Returns the number of a mode.
pub(crate) const fn mode_code(mode: Mode) -> u32 {
    mode as u32
}

/// Returns the mode with this number.
pub(crate) fn mode(code: u32) -> Result<Mode, Failure> {
    Mode::from_wire(code.into()).map_err(|_| out_of_range("mode", "a value of enum suci_mode"))
}

/// Returns the number of a controller, and its window.
pub(crate) const fn controller_code(choice: ControllerChoice) -> (u32, u64) {
    match choice {
        ControllerChoice::Auto => (0, 0),
        ControllerChoice::Lan => (1, 0),
        ControllerChoice::Wan => (2, 0),
        ControllerChoice::Cubic => (3, 0),
        ControllerChoice::Fixed { bytes } => (4, bytes),
    }
}

/// Returns the controller with this number.
pub(crate) fn controller(code: u32, window: u64) -> Result<ControllerChoice, Failure> {
    Ok(match code {
        0 => ControllerChoice::Auto,
        1 => ControllerChoice::Lan,
        2 => ControllerChoice::Wan,
        3 => ControllerChoice::Cubic,
        4 => ControllerChoice::Fixed { bytes: window },
        _ => {
            return Err(out_of_range(
                "controller",
                "a value of enum suci_controller",
            ));
        }
    })
}

impl Default for NodeOptions {
    fn default() -> Self {
        let (mut config, mut udp) = (suci::Config::default(), suci::UdpOptions::default());
        // The builder tells its defaults to those who change them.
        let _ = Node::builder().config(|known| config = known.clone());
        let _ = Node::builder().udp(|known| udp = *known);
        let (controller, controller_window) = controller_code(config.controller);
        Self {
            size: size_of::<Self>() as u32,
            threads: 0,
            id: -1,
            listen: std::ptr::null(),
            book: Handle::default(),
            book_file: std::ptr::null(),
            metrics: std::ptr::null(),
            faults: std::ptr::null(),
            accept: 0,
            mode: mode_code(config.mode),
            controller,
            wait: 0,
            controller_window,
            spin: 5_000_000,
            rate_cap: config.rate_cap.unwrap_or(NO_LIMIT),
            memory: config.memory,
            max_message: config.max_message,
            send_queue: config.send_queue,
            rts_threshold: config.rts_threshold,
            max_peers: config.max_peers as u64,
            silence_timeout: nanoseconds(config.silence_timeout),
            give_up_after: nanoseconds(config.give_up_after),
            max_ack_delay: nanoseconds(config.max_ack_delay),
            max_datagram: config.max_datagram as u64,
            recv_buffer: udp.recv_buffer as u64,
            send_buffer: udp.send_buffer as u64,
            recv_slot: udp.recv_slot as u64,
            allow_insecure_network: 0,
            payload_checksum: config.payload_checksum.into(),
            unattended: config.unattended.into(),
            keep_alive: config.keep_alive.into(),
            statistics: 1,
            ecn: config.ecn.into(),
            gso: udp.gso.into(),
            gro: udp.gro.into(),
            reuse_port: udp.reuse_port.into(),
            only_v6: udp.only_v6.into(),
            ignore_supervision: 0,
            reserved: [0; 5],
            key_file: std::ptr::null(),
            cluster: std::ptr::null(),
            node_key_file: std::ptr::null(),
            public_keys_file: std::ptr::null(),
        }
    }
}

impl NodeOptions {
    /// Returns the builder with the files of keys that are named.
    ///
    /// # Safety
    /// As [`builder`](Self::builder).
    unsafe fn with_keys(&self, builder: NodeBuilder) -> Result<NodeBuilder, Failure> {
        // SAFETY: the caller promises it of all three.
        let (cluster, own, public) = unsafe {
            (
                text::optional(self.key_file, "key_file")?,
                text::optional(self.node_key_file, "node_key_file")?,
                text::optional(self.public_keys_file, "public_keys_file")?,
            )
        };
        match (cluster, own, public) {
            (None, None, None) => Ok(builder),
            (Some(file), None, None) => Ok(builder.key_file(file)),
            (None, Some(own), Some(public)) => Ok(builder.node_key_files(own, public)),
            (None, _, _) => Err(Failure::argument(
                "node_key_file and public_keys_file belong together: name both",
            )),
            (Some(_), _, _) => Err(Failure::argument(
                "key_file excludes node_key_file and public_keys_file: name the files of one kind",
            )),
        }
    }

    /// Returns the builder of a node with these settings.
    ///
    /// # Safety
    /// Texts that are not null end with a null byte.
    pub(crate) unsafe fn builder(&self) -> Result<NodeBuilder, Failure> {
        if self.reserved != [0; 5] {
            return Err(Failure::argument(
                "reserved bytes of suci_node_options are set: init it",
            ));
        }
        let mut builder = Node::builder()
            .accept(self.accept_policy()?)
            .mode(mode(self.mode)?)
            .controller(controller(self.controller, self.controller_window)?)
            .wait(self.wait_policy()?)
            .memory(self.memory)
            .max_message(self.max_message)
            .send_queue(self.send_queue)
            .rts_threshold(self.rts_threshold)
            .max_peers(length(self.max_peers, "max_peers")?)
            .silence_timeout(time(self.silence_timeout, "silence_timeout")?)
            .give_up_after(time(self.give_up_after, "give_up_after")?)
            .payload_checksum(self.payload_checksum != 0)
            .statistics(self.statistics != 0);
        if self.id >= 0 {
            let id = u32::try_from(self.id);
            let id = id.map_err(|_| out_of_range("id", "-1, or 0 to 4294967295"))?;
            builder = builder.id(NodeId(id));
        }
        if self.rate_cap != NO_LIMIT {
            builder = builder.rate_cap(self.rate_cap);
        }
        if self.allow_insecure_network != 0 {
            builder = builder.allow_insecure_network();
        }
        if self.unattended != 0 {
            builder = builder.unattended();
        }
        if self.keep_alive != 0 {
            builder = builder.keep_alive();
        }
        if self.ignore_supervision != 0 {
            builder = builder.ignore_supervision();
        }
        let builder = self.tune(builder)?;
        // SAFETY: the caller's promise.
        unsafe { self.apply_texts(builder) }
    }

    fn accept_policy(&self) -> Result<AcceptPolicy, Failure> {
        match self.accept {
            0 => Ok(AcceptPolicy::Book),
            1 => Ok(AcceptPolicy::Anyone),
            _ => Err(out_of_range("accept", "a value of enum suci_accept")),
        }
    }

    fn wait_policy(&self) -> Result<WaitPolicy, Failure> {
        match self.wait {
            0 => Ok(WaitPolicy::Adaptive),
            1 => Ok(WaitPolicy::Sleep),
            2 => time(self.spin, "spin").map(WaitPolicy::Spin),
            _ => Err(out_of_range("wait", "a value of enum suci_wait_policy")),
        }
    }

    /// Sets what the builder has as plain data.
    fn tune(&self, builder: NodeBuilder) -> Result<NodeBuilder, Failure> {
        let max_ack_delay = time(self.max_ack_delay, "max_ack_delay")?;
        let max_datagram = length(self.max_datagram, "max_datagram")?;
        let (recv_buffer, send_buffer) = (
            length(self.recv_buffer, "recv_buffer")?,
            length(self.send_buffer, "send_buffer")?,
        );
        let recv_slot = length(self.recv_slot, "recv_slot")?;
        if !(1..=65_536).contains(&recv_slot) {
            return Err(out_of_range("recv_slot", "1 to 65536 bytes"));
        }
        let builder = builder.config(|config| {
            config.max_ack_delay = max_ack_delay;
            config.max_datagram = max_datagram;
            config.ecn = self.ecn != 0;
        });
        Ok(builder.udp(|udp| {
            udp.recv_buffer = recv_buffer;
            udp.send_buffer = send_buffer;
            udp.recv_slot = recv_slot;
            udp.gso = self.gso != 0;
            udp.gro = self.gro != 0;
            udp.reuse_port = self.reuse_port != 0;
            udp.only_v6 = self.only_v6 != 0;
        }))
    }

    /// Sets what is named by texts and the book.
    ///
    /// # Safety
    /// As [`NodeOptions::builder`].
    unsafe fn apply_texts(&self, mut builder: NodeBuilder) -> Result<NodeBuilder, Failure> {
        // SAFETY: the caller's promise, for this and the texts below.
        if let Some(listen) = unsafe { text::optional(self.listen, "listen") }? {
            builder = builder.listen(text::named_address(listen)?);
        }
        // SAFETY: as above.
        if let Some(metrics) = unsafe { text::optional(self.metrics, "metrics") }? {
            builder = builder.metrics(text::named_address(metrics)?);
        }
        // SAFETY: as above.
        if let Some(faults) = unsafe { text::optional(self.faults, "faults") }? {
            let wrong = |error| Failure::new(CONFIG, format!("faults: {error}"));
            builder = builder.faults(faults.parse().map_err(wrong)?);
        }
        // SAFETY: as above.
        builder = unsafe { self.with_keys(builder) }?;
        // SAFETY: as above.
        if let Some(cluster) = unsafe { text::optional(self.cluster, "cluster") }? {
            builder = builder.membership(Membership::new(cluster));
        }
        // SAFETY: as above.
        let file = unsafe { text::optional(self.book_file, "book_file") }?;
        if self.book.id != 0 {
            return Ok(builder.book(book::copy(self.book)?));
        }
        Ok(match file {
            Some(file) => builder.book_file(file),
            None => builder,
        })
    }
}

/// Sets the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_options_init_sized(
    options: *mut NodeOptions,
    size: usize,
) -> c_int {
    // SAFETY: as suci.h asks.
    crate::guard::guard(|| unsafe { pointer::begin(options, size, NodeOptions::default()) })
}
