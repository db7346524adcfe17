/*
 * The messages that pass through the sockets of the targets: where HTTP/1 and HTTP/2 requests and answers begin and end, which call of which
 * thread passed them, and when their bytes came. Framing is read here, so that nothing else leaves the kernel: of a
 * message only its method and path, its status, and lengths.
 */
#include "bpf/common.bpf.h"

#include <bpf/bpf_endian.h>

#define FLOWS_MAX 32768
#define CALLS_MAX 8192
#define LISTENERS_MAX 1024
/* Of one call: bytes of framing that are looked at one by one, and pieces that are passed over. */
#define STEPS_MAX 16384
#define PIECES_MAX 1024
#define WINDOW_BYTES 128 /* a power of two */
#define LINE_BYTES 40
#define FRAME_BYTES 9
/* Calls without anything known in them, until that is told. */
#define TRIES_MAX 8
#define FOR_EVER (1ULL << 62)

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define TCP_CLOSE_WAIT 8
#define TCP_LAST_ACK 9
#define TCP_LISTEN 10
#define TCP_CLOSING 11
#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define MSG_OOB 1
#define MSG_PEEK 2
#define MSG_TRUNC 0x20
#define MSG_ERRQUEUE 0x2000

/* x86-64 */
enum call {
	CALL_READ = 0,
	CALL_WRITE = 1,
	CALL_CLOSE = 3,
	CALL_READV = 19,
	CALL_WRITEV = 20,
	CALL_SENDFILE = 40,
	CALL_ACCEPT = 43,
	CALL_SENDTO = 44,
	CALL_RECVFROM = 45,
	CALL_SENDMSG = 46,
	CALL_RECVMSG = 47,
	CALL_SHUTDOWN = 48,
	CALL_SPLICE = 275,
	CALL_ACCEPT4 = 288,
	CALL_IO_URING_ENTER = 426,
};
#define BIT(n) (1ULL << (n))
#define LOW_CALLS                                                                                                              \
	(BIT(CALL_READ) | BIT(CALL_WRITE) | BIT(CALL_CLOSE) | BIT(CALL_READV) | BIT(CALL_WRITEV) | BIT(CALL_SENDFILE) |        \
	 BIT(CALL_ACCEPT) | BIT(CALL_SENDTO) | BIT(CALL_RECVFROM) | BIT(CALL_SENDMSG) | BIT(CALL_RECVMSG) | BIT(CALL_SHUTDOWN))

/* Makes numbers of the kernel's addresses; another one for each capture, set before load. */
const volatile __u64 socket_secret[2] = {};

/* When the call that a thread is in was entered. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CALLS_MAX);
	__type(key, __u32);
	__type(value, __u64);
} calls SEC(".maps");

struct serving_port {
	__u32 net;
	__u32 port;
};

struct serving_socket {
	__u32 target; /* its index */
	__u32 uid;    /* whose the socket is: another user's process can serve at the same port, of another address */
};

/* Where targets serve. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LISTENERS_MAX);
	__type(key, struct serving_port);
	__type(value, struct serving_socket);
} listeners SEC(".maps");

struct flow_key {
	__u64 sock;
	__u32 inode;
	__u32 direction;
};

enum flow_state {
	STATE_DETECT,	   /* collects the bytes that tell the protocol */
	STATE_LINE,	   /* in an HTTP/1 head */
	STATE_BODY,	   /* passes over a body of a known length */
	STATE_CHUNK,	   /* reads the size of a chunk, or passes over one */
	STATE_TRAILER,	   /* in the lines after the last chunk */
	STATE_UNTIL_CLOSE, /* passes over all that comes */
	STATE_FRAME,	   /* collects the head of an HTTP/2 frame, or passes over one */
	STATE_PADDING,	   /* reads how much padding a frame has */
	STATE_BLOCK,	   /* in a block of header fields */
};

enum field_state {
	FIELD_BEGIN,
	FIELD_INDEX, /* goes on */
	FIELD_NAME_LENGTH,
	FIELD_NAME_LENGTH_ON,
	FIELD_NAME_BYTES,
	FIELD_VALUE_LENGTH,
	FIELD_VALUE_LENGTH_ON,
	FIELD_VALUE_BYTES,
};

enum field_kind {
	KIND_INDEXED,
	KIND_INSERTED,
	KIND_LITERAL,
	KIND_RESIZE,
};

/* Names of fields by their place in HPACK's static table (RFC 7541, appendix A). */
#define STATIC_METHOD 2
#define STATIC_PATH 4
#define STATIC_STATUS 8
#define STATIC_STATUS_LAST 14
#define STATIC_LAST 61
#define NAME_GRPC_STATUS 0xff

/* HPACK's Huffman code (RFC 7541, appendix B) of '?', and the longest code of what a path can hold. */
#define CODE_QUERY 0x3fc
#define CODE_QUERY_BITS 10
#define CODE_BITS_MAX 15
/* No connection begins with a larger frame of header fields: peers have to agree on that first. */
#define FIRST_BLOCK_MAX 16384

/* One direction of a connection: how far its bytes are understood. */
struct flow {
	__u64 skip;	 /* bytes to be passed over */
	__u64 length;	 /* of a body */
	__u64 last_ns;	 /* bytes last passed */
	__u64 began;	 /* the call was entered that passed the first byte of the message, or frame */
	__u64 raw_began; /* likewise of what is in .raw */
	__u32 expected;	 /* the next sequence number */
	__u32 bytes;	 /* of the message */
	__u32 ordinal, stream, inserted, number, left, block, value, shift;
	__u32 code; /* that a text in Huffman code is in, so many bits of it */
	__u8 code_bits;
	__u16 status, line, name_bytes, kept;
	__u8 protocol, state, n, tries;
	__u8 is_request, first_line, target, query, chunked, has_length, is_head, pending;
	__u8 type, frame_flags, ends_stream, padding;
	__u8 field, kind, name, huffman;
	__u8 fields_lost, seen_status, seen_method, seen_path, n_references, told, spaces;
	__u8 followed; /* .expected is known */
	__u8 accepted; /* since the window opened */
	__u8 passing;  /* nothing more is wanted of the line */
	__u8 has_grpc_status;
	__u32 grpc_status; /* number of a field of that name in the table */
	__u8 busy; /* a thread is at it */
	__u8 raw[FRAME_BYTES + 3];
	__u16 references[RECORD_REFERENCES];
	char bytes_of_line[LINE_BYTES];
	char text[RECORD_FIELD_SIZE];
};

/* Memory for them is taken when they come: that of all would take longer to clear than everything else. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, FLOWS_MAX);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

/* What is copied of user memory at a time. */
struct window {
	__u8 bytes[WINDOW_BYTES];
	struct flow fresh; /* of zeros */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

/* A socket of a target. */
struct place {
	struct flow_key key;
	__u32 net;
	__u16 local_port, peer_port;
	bool tcp, server;
};

/* The bytes of one call, as they are gone through. No pointers, so that the functions below can be verified one by one. */
struct pass {
	__u64 now, began, sock;
	__u64 vector; /* address of the pieces that are left */
	__u64 address, room; /* of the piece at hand */
	__u64 left;	     /* of all pieces */
	__u64 window_at;
	__u32 window_bytes, pieces, position, inode, tid, cpu, target;
	__u16 local_port, peer_port;
	__u8 direction, server, unread, dead;
};

/* The functions that are verified by themselves, each once, do not trust that there is anything behind their arguments. */
#define ENTRY __attribute__((noinline)) int

static __always_inline __u64 socket_number(__u64 sock)
{
	sock ^= socket_secret[0];
	sock = (sock ^ sock >> 29) * 0xbf58476d1ce4e5b9ULL;
	sock ^= socket_secret[1];
	sock = (sock ^ sock >> 32) * 0x94d049bb133111ebULL;
	return sock ^ sock >> 31;
}

static __always_inline bool is_followed(long id)
{
	return (id >= 0 && id < 64 && (LOW_CALLS & BIT(id))) || id == CALL_SPLICE || id == CALL_ACCEPT4 || id == CALL_IO_URING_ENTER;
}

/* The index of a process among the targets, -1: none. */
static __always_inline int target_index(__u32 pid)
{
	__u32 zero = 0;
	const struct record_targets *t = bpf_map_lookup_elem(&targets, &zero);

	if (!t)
		return -1;
	for (int i = 0; i < RECORD_MAX_TARGETS; i++) {
		if (i >= t->n)
			return -1;
		if (t->pids[i] == pid)
			return i;
	}
	return -1;
}

static __always_inline bool is_socket(struct file *file)
{
	return (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK;
}

static __always_inline struct sock *sock_of_file(struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);

	return socket ? BPF_CORE_READ(socket, sk) : NULL;
}

static __always_inline struct file *file_of(__u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **all = BPF_CORE_READ(table, fd), *file = NULL;

	if (fd >= BPF_CORE_READ(table, max_fds) || bpf_probe_read_kernel(&file, sizeof(file), all + fd))
		return NULL;
	return file;
}

static __always_inline void listener_of(struct sock *sk, struct serving_port *ret)
{
	ret->net = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	ret->port = BPF_CORE_READ(sk, __sk_common.skc_num);
}

/* Finds the stream socket behind a descriptor; false: there is none. */
static __always_inline bool find_place(__u32 fd, struct place *ret)
{
	struct file *file = file_of(fd);
	struct serving_port l;
	struct sock *sk;
	__u16 family;

	if (!file || !is_socket(file))
		return false;
	sk = sock_of_file(file);
	if (!sk || BPF_CORE_READ(sk, sk_type) != SOCK_STREAM)
		return false;
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	__builtin_memset(ret, 0, sizeof(*ret));
	ret->key.sock = (__u64)sk;
	ret->key.inode = (__u32)BPF_CORE_READ(file, f_inode, i_ino);
	if (family == AF_UNIX) {
		/* Who connected has no address of his own; who accepted has the listener's. */
		ret->server = BPF_CORE_READ((struct unix_sock *)sk, addr) != NULL;
		return true;
	}
	if (family != AF_INET && family != AF_INET6)
		return false;
	/* Of other protocols only the bytes are known, not their numbers. */
	ret->tcp = BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP;
	listener_of(sk, &l);
	ret->net = l.net;
	ret->local_port = (__u16)l.port;
	ret->peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	ret->server = bpf_map_lookup_elem(&listeners, &l) != NULL;
	return true;
}

static __always_inline void fill_message(struct record_message *r, const struct pass *p, const struct flow *f, __u16 part, __u64 size)
{
	record_head(&r->head, p->now, p->tid, RECORD_MESSAGE, size);
	r->head.target = p->target;
	r->began = part & MESSAGE_FIRST ? f->began : p->began;
	r->socket = socket_number(p->sock);
	r->inode = p->inode;
	r->position = p->position;
	r->stream = f->stream;
	r->bytes = f->bytes;
	r->local_port = p->local_port;
	r->peer_port = p->peer_port;
	r->part = part | (p->server ? MESSAGE_SERVER : 0) | (f->is_request ? MESSAGE_IS_REQUEST : 0) |
		  (f->accepted ? MESSAGE_ACCEPTED : 0);
	r->status = f->status;
	r->direction = p->direction;
	r->protocol = f->protocol;
	r->type = f->type;
	r->flags = f->frame_flags;
	r->ordinal = f->ordinal;
}

ENTRY send_message(struct pass *p, struct flow *f, __u32 part)
{
	struct record_message *r;

	if (!p || !f)
		return 0;
	r = record_reserve(p->cpu, sizeof(*r));
	if (!r)
		return 0;
	fill_message(r, p, f, (__u16)part, sizeof(*r));
	record_submit(r);
	return 0;
}

static __always_inline void send_headers(struct pass *p, struct flow *f, __u16 part)
{
	struct record_headers *r = record_reserve(p->cpu, sizeof(*r));

	if (!r)
		return;
	fill_message(&r->message, p, f, part, sizeof(*r));
	r->inserted = f->inserted;
	r->status = f->seen_status;
	r->method = f->seen_method;
	r->path = f->seen_path;
	r->n_references = f->n_references;
	r->reserved = 0;
	__builtin_memcpy(r->references, f->references, sizeof(r->references));
	record_submit(r);
}

ENTRY send_field(struct pass *p, struct flow *f, __u32 name)
{
	struct record_field *r;

	if (!p || !f)
		return 0;
	r = record_reserve(p->cpu, sizeof(*r));
	if (!r)
		return 0;
	record_head(&r->head, p->now, p->tid, RECORD_FIELD, sizeof(*r));
	r->head.target = p->target;
	r->socket = socket_number(p->sock);
	r->inode = p->inode;
	r->stream = f->stream;
	r->number = f->number;
	r->size = f->kept;
	r->direction = p->direction;
	r->name = (__u8)name;
	r->inserted = f->kind == KIND_INSERTED;
	r->huffman = f->huffman;
	__builtin_memset(r->reserved, 0, sizeof(r->reserved));
	__builtin_memcpy(r->text, f->text, sizeof(r->text));
	record_submit(r);
	return 0;
}

static __always_inline void send_unseen(__u64 now, __u32 tid, __u32 target, __u64 sock, __u32 inode, __u8 what)
{
	struct record_unseen *r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));

	if (!r)
		return;
	record_head(&r->head, now, tid, RECORD_UNSEEN, sizeof(*r));
	r->head.target = target;
	r->head.site = what;
	r->socket = socket_number(sock);
	r->inode = inode;
	r->reserved = 0;
	record_submit(r);
}

/* Begins anew: with the next bytes, or with the next call's. */
static __always_inline void flow_restart(struct flow *f)
{
	f->protocol = MESSAGE_NEW;
	f->state = STATE_DETECT;
	f->n = 0;
	f->skip = 0;
	f->bytes = 0;
	f->status = 0;
	f->stream = 0;
	f->pending = 0;
	f->ends_stream = 0;
	f->is_request = 0;
	f->first_line = 0;
}

/* Nothing that is known begins here. */
static __always_inline void flow_unknown(struct pass *p, struct flow *f)
{
	if (f->tries < 255 && ++f->tries == TRIES_MAX && !f->told) {
		send_unseen(p->now, p->tid, p->target, p->sock, p->inode, UNSEEN_OTHER);
		f->told = 1;
	}
	p->dead = 1;
}

/* What passes here cannot be followed any more. */
static __always_inline void flow_lost(struct pass *p, struct flow *f)
{
	/* It was a message so far. */
	if (f->pending && !f->first_line)
		send_message(p, f, f->pending);
	send_message(p, f, MESSAGE_LOST);
	f->fields_lost = 1;
	flow_restart(f);
	p->dead = 1;
}

/* The message's last byte has passed. */
static __always_inline void message_end(struct pass *p, struct flow *f)
{
	__u8 part = f->pending | MESSAGE_LAST;

	send_message(p, f, part);
	flow_restart(f);
}

static __always_inline void line_begin(struct flow *f)
{
	f->line = 0;
	f->passing = 0;
}

/* With a literal, of which nothing is left but constants: data of its own would need a section. */
#define IS(bytes, literal)                                                  \
	({                                                                  \
		bool is_ = true;                                            \
		_Pragma("unroll") for (unsigned i_ = 0; i_ < sizeof(literal) - 1; i_++) \
			is_ &= (__u8)(bytes)[i_] == (__u8)literal[i_];      \
		is_;                                                        \
	})

/* The other direction's last request asked for a head only. */
static __always_inline bool answers_head(const struct pass *p)
{
	struct flow_key other = { .sock = p->sock, .inode = p->inode, .direction = !p->direction };
	const struct flow *f = bpf_map_lookup_elem(&flows, &other);

	return f && f->is_head;
}

ENTRY head_end(struct pass *p, struct flow *f)
{
	if (!p || !f)
		return 0;
	if (!f->is_request && f->status >= 100 && f->status < 200) {
		/* An interim answer: the real one follows; after 101 it is another protocol's. */
		if (f->status == 101) {
			flow_lost(p, f);
			return 0;
		}
		f->ordinal--;
		flow_restart(f);
		return 0;
	}
	if (!f->is_request && (f->status == 204 || f->status == 304 || answers_head(p))) {
		message_end(p, f);
	} else if (f->chunked) {
		f->state = STATE_CHUNK;
		f->length = 0;
		line_begin(f);
	} else if (f->has_length && f->length) {
		f->state = STATE_BODY;
		f->skip = f->length;
	} else if (f->has_length || f->is_request) {
		message_end(p, f);
	} else {
		f->state = STATE_UNTIL_CLOSE;
		f->skip = FOR_EVER;
	}
	return 0;
}

static __always_inline void head_line(struct pass *p, struct flow *f)
{
	if (!f->line) {
		head_end(p, f);
		return;
	}
	if (IS(f->bytes_of_line, "content-length:")) {
		__u64 value = 0;

		for (int i = 15; i < LINE_BYTES; i++) {
			char c = f->bytes_of_line[i];

			if (i >= f->line)
				break;
			/* Whoever takes it for something else than we do sees other messages. */
			if ((c < '0' || c > '9') && c != ' ' && c != '\t') {
				flow_lost(p, f);
				return;
			}
			if (c >= '0' && c <= '9')
				value = value * 10 + (__u64)(c - '0');
		}
		f->length = value;
		f->has_length = 1;
	} else if (IS(f->bytes_of_line, "transfer-encoding:")) {
		f->chunked = 1;
	}
	line_begin(f);
}

static __always_inline void first_line_end(struct pass *p, struct flow *f)
{
	/* Many protocols have lines that begin as a request does. */
	if (f->is_request && (f->spaces < 2 || f->line != 8 || !IS(f->bytes_of_line, "HTTP/1."))) {
		flow_restart(f);
		flow_unknown(p, f);
		return;
	}
	f->first_line = 0;
	f->ordinal++;
	f->number = 0;
	f->kind = KIND_LITERAL;
	f->huffman = 0;
	if (f->is_request) {
		f->is_head = f->text[0] == 'H' && f->text[1] == 'E';
		if (p->direction == MESSAGE_READ)
			send_field(p, f, FIELD_REQUEST_LINE);
	}
	line_begin(f);
}

/* A byte of the first line: "POST /path?query HTTP/1.1", or "HTTP/1.1 200 OK". */
static __always_inline void first_line_byte(struct pass *p, struct flow *f, __u8 b)
{
	__u32 at;

	if (b == '\n') {
		first_line_end(p, f);
		return;
	}
	if (b == ' ') {
		if (f->spaces < 255)
			f->spaces++;
		line_begin(f);
	} else if (b == '?' && f->spaces == 1) {
		f->query = 1;
	}
	if (!f->is_request) {
		if (f->spaces == 1 && b >= '0' && b <= '9')
			f->status = f->status * 10 + (b - '0');
		return;
	}
	if (b == ' ' ? f->spaces > 1 : b == '\r')
		return;
	at = f->line;
	if (b != ' ') {
		if (at < LINE_BYTES)
			f->bytes_of_line[at] = (char)b;
		if (f->line < 0xffff)
			f->line++;
	}
	/* Only method and path are kept. */
	at = f->kept;
	if (f->query || f->spaces > 1)
		return;
	if (at < RECORD_FIELD_SIZE)
		f->text[at] = (char)b;
	if (f->kept < 0xffff)
		f->kept++;
}

ENTRY head_byte(struct pass *p, struct flow *f, __u32 byte)
{
	__u8 b = (__u8)byte;
	__u32 at;

	if (!p || !f)
		return 0;
	if (f->first_line) {
		first_line_byte(p, f, b);
		return 0;
	}
	if (b == '\n') {
		head_line(p, f);
		return 0;
	}
	if (b == '\r')
		return 0;
	at = f->line;
	b = b >= 'A' && b <= 'Z' ? b + 32 : b;
	if (at < LINE_BYTES)
		f->bytes_of_line[at] = (char)b;
	if (f->line < 0xffff)
		f->line++;
	/* Most lines are none that is looked for. */
	if (f->line == 1)
		f->passing = b != 'c' && b != 't';
	else if (f->line == 8)
		f->passing = !IS(f->bytes_of_line, "content-") && !IS(f->bytes_of_line, "transfer");
	else if (f->line >= LINE_BYTES)
		f->passing = 1;
	return 0;
}

static __always_inline void chunk_byte(struct pass *p, struct flow *f, __u8 b)
{
	__u32 digit;

	if (b == '\n') {
		if (!f->length) {
			f->state = STATE_TRAILER;
			line_begin(f);
			return;
		}
		/* And the line end behind it. */
		f->skip = f->length + 2;
		f->length = 0;
		line_begin(f);
		return;
	}
	/* What follows a semicolon, or space, is no part of the size. */
	if (b == ';' || b == ' ' || b == '\t')
		f->line = 1;
	if (f->line || b == '\r')
		return;
	digit = b >= '0' && b <= '9' ? b - '0' : b >= 'a' && b <= 'f' ? b - 'a' + 10u : b >= 'A' && b <= 'F' ? b - 'A' + 10u : 16u;
	if (digit > 15 || f->length >> 56) {
		flow_lost(p, f);
		return;
	}
	f->length = f->length << 4 | digit;
}

static __always_inline void trailer_byte(struct pass *p, struct flow *f, __u8 b)
{
	if (b == '\n' && !f->line)
		message_end(p, f);
	else if (b == '\n')
		line_begin(f);
	else if (b != '\r')
		f->line = 1;
}

/* Whether nine bytes can be the head of a frame (RFC 9113, 4.1 and 6). */
static __always_inline bool is_frame(const __u8 *raw)
{
	__u32 length = (__u32)raw[0] << 16 | (__u32)raw[1] << 8 | raw[2], stream;

	stream = (__u32)raw[5] << 24 | (__u32)raw[6] << 16 | (__u32)raw[7] << 8 | raw[8];
	if (stream >> 31)
		return false;
	switch (raw[3]) {
	case 0: /* DATA */
		return (stream & 1) && !(raw[4] & ~0x09);
	case 1: /* HEADERS */
		return (stream & 1) && !(raw[4] & ~0x2d) && length;
	case 2: /* PRIORITY */
		return stream && length == 5;
	case 3: /* RST_STREAM */
		return stream && length == 4;
	case 4: /* SETTINGS */
		return !stream && length % 6 == 0 && length <= 600 && !(raw[4] & ~0x01);
	case 6: /* PING */
		return !stream && length == 8 && !(raw[4] & ~0x01);
	case 7: /* GOAWAY */
		return !stream && length >= 8 && length <= 16384;
	case 8: /* WINDOW_UPDATE */
		return length == 4;
	case 9: /* CONTINUATION */
		return (stream & 1) && !(raw[4] & ~0x04);
	default:
		return false;
	}
}

static __always_inline void block_begin(struct flow *f)
{
	f->field = FIELD_BEGIN;
	f->seen_status = f->seen_method = f->seen_path = f->n_references = 0;
}

/* The frame has passed. */
static __always_inline void frame_end(struct pass *p, struct flow *f)
{
	/* END_STREAM is on HEADERS and takes effect when their block has ended. */
	if (f->ends_stream && (f->type == 0 || f->frame_flags & 4 /* END_HEADERS */)) {
		send_message(p, f, MESSAGE_LAST);
		f->ends_stream = 0;
	}
	f->n = 0;
	f->state = STATE_FRAME;
}

/* The block of header fields ends with its frame, or goes on in the next one. */
ENTRY block_end(struct pass *p, struct flow *f)
{
	__u16 part = MESSAGE_FIRST;

	if (!p || !f)
		return 0;
	if (f->frame_flags & 4 /* END_HEADERS */) {
		if (f->fields_lost) {
			part |= MESSAGE_NO_FIELDS;
			f->n_references = 0;
		}
		f->type = 1;
		send_headers(p, f, part);
	}
	f->state = STATE_FRAME;
	f->skip = f->padding;
	f->padding = 0;
	if (!f->skip)
		frame_end(p, f);
	return 0;
}

ENTRY frame_begin(struct pass *p, struct flow *f)
{
	__u32 length;

	if (!p || !f)
		return 0;
	length = (__u32)f->raw[0] << 16 | (__u32)f->raw[1] << 8 | f->raw[2];
	if (!is_frame(f->raw)) {
		/* Frames of kinds that are not known are passed over where frames are known to be. */
		if (f->protocol != MESSAGE_HTTP2 || f->raw[3] <= 9) {
			flow_lost(p, f);
			return 0;
		}
	}
	f->protocol = MESSAGE_HTTP2;
	f->state = STATE_FRAME;
	f->n = 0;
	f->type = f->raw[3];
	f->frame_flags = f->raw[4];
	f->stream = ((__u32)f->raw[5] << 24 | (__u32)f->raw[6] << 16 | (__u32)f->raw[7] << 8 | f->raw[8]) & 0x7fffffff;
	f->padding = 0;
	f->skip = length;
	/* A block that goes on is one with its beginning. */
	if (f->type == 9) {
		f->bytes += length;
	} else {
		f->bytes = length;
		f->began = f->raw_began;
		f->ends_stream = f->type <= 1 && (f->frame_flags & 1);
	}
	if (f->type == 1 || f->type == 9) {
		if (f->type == 1)
			block_begin(f);
		f->state = STATE_BLOCK;
		f->skip = 0;
		f->block = length;
		if (f->type == 1 && (f->frame_flags & 8)) {
			f->state = STATE_PADDING;
			return 0;
		}
		if (f->type == 1 && (f->frame_flags & 0x20)) {
			if (length < 5) {
				flow_lost(p, f);
				return 0;
			}
			f->skip = 5;
			f->block = length - 5;
		}
		if (!f->block && !f->skip)
			block_end(p, f);
		return 0;
	}
	if (f->type == 0 || f->type == 3) {
		/* Its last byte may come with a later call. */
		if (f->ends_stream && length <= p->left) {
			f->ends_stream = 0;
			send_message(p, f, MESSAGE_FIRST | MESSAGE_LAST);
		} else {
			send_message(p, f, MESSAGE_FIRST);
		}
	}
	if (!f->skip)
		frame_end(p, f);
	return 0;
}

static __always_inline void padding_byte(struct pass *p, struct flow *f, __u8 b)
{
	__u32 before = 1 + (f->frame_flags & 0x20 ? 5 : 0);

	if (f->block < before + b) {
		flow_lost(p, f);
		return;
	}
	f->padding = b;
	f->block -= before + b;
	f->state = STATE_BLOCK;
	f->skip = before - 1;
	if (!f->block && !f->skip)
		block_end(p, f);
}

/* What a name is looked for under; -1: nobody asks for it. */
static __always_inline int field_wanted(const struct flow *f)
{
	if (f->name == STATIC_PATH || f->name == STATIC_PATH + 1)
		return FIELD_PATH;
	if (f->name == STATIC_METHOD || f->name == STATIC_METHOD + 1)
		return FIELD_METHOD;
	if (f->name >= STATIC_STATUS && f->name <= STATIC_STATUS_LAST)
		return FIELD_STATUS;
	return f->name == NAME_GRPC_STATUS ? FIELD_GRPC_STATUS : -1;
}

static __always_inline void field_end(struct pass *p, struct flow *f)
{
	int wanted = field_wanted(f);

	f->number = f->inserted;
	if (f->kind == KIND_INSERTED) {
		if (f->name == NAME_GRPC_STATUS) {
			f->has_grpc_status = 1;
			f->grpc_status = f->number;
		}
		f->inserted++;
	}
	/* What a target asks of others is its own business. */
	if (wanted >= 0 && (p->server || p->direction == MESSAGE_READ))
		send_field(p, f, (__u32)wanted);
	f->field = FIELD_BEGIN;
}

/* Passes over a text that nobody asks for, as far as it is in this frame. */
static __always_inline void text_skip(struct flow *f)
{
	__u32 n = f->left < f->block ? f->left : f->block;

	f->skip = n;
	f->left -= n;
	f->block -= n;
}

static __always_inline void value_begin(struct pass *p, struct flow *f)
{
	f->kept = 0;
	f->query = 0;
	f->code = 0;
	f->code_bits = 0;
	f->left = f->value;
	f->field = FIELD_VALUE_BYTES;
	if (!f->left)
		field_end(p, f);
}

static __always_inline void name_begin(struct flow *f)
{
	f->left = f->value;
	f->name_bytes = 0;
	f->name = 0;
	f->field = f->left ? FIELD_NAME_BYTES : FIELD_VALUE_LENGTH;
}

/* Not a field of the tables that are known, or one: by its index. */
static __always_inline void index_end(struct flow *f)
{
	__u32 index = f->value;

	f->field = FIELD_BEGIN;
	if (f->kind == KIND_RESIZE)
		return;
	if (f->kind != KIND_INDEXED) {
		f->name = index <= STATIC_LAST ? (__u8)index : 0;
		if (index > STATIC_LAST && f->has_grpc_status && f->inserted - 1 - (index - STATIC_LAST - 1) == f->grpc_status)
			f->name = NAME_GRPC_STATUS;
		f->field = index ? FIELD_VALUE_LENGTH : FIELD_NAME_LENGTH;
		return;
	}
	if (index > STATIC_LAST) {
		__u32 n = f->n_references;

		if (n < RECORD_REFERENCES) {
			f->references[n] = (__u16)(f->inserted - 1 - (index - STATIC_LAST - 1));
			f->n_references++;
		}
	} else if (index >= STATIC_STATUS && index <= STATIC_STATUS_LAST) {
		f->seen_status = (__u8)index;
	} else if (index == STATIC_PATH || index == STATIC_PATH + 1) {
		f->seen_path = (__u8)index;
	} else if (index == STATIC_METHOD || index == STATIC_METHOD + 1) {
		f->seen_method = (__u8)index;
	}
}

/* One more byte of a number that did not fit into its first one; true: the last. */
static __always_inline bool number_byte(struct pass *p, struct flow *f, __u8 b)
{
	if (f->shift > 21) {
		flow_lost(p, f);
		return false;
	}
	f->value += (__u32)(b & 0x7f) << f->shift;
	f->shift += 7;
	return !(b & 0x80);
}

static __always_inline bool number_begin(struct flow *f, __u8 b, __u8 most)
{
	f->value = b & most;
	f->shift = 0;
	return f->value < most;
}

static __always_inline void name_end(struct flow *f)
{
	/* The same in HPACK's Huffman code. */
	bool is_coded = f->huffman && f->name_bytes == 8 && IS(f->bytes_of_line, "\x9a\xca\xc8\xb2\x12\x34\xda\x8f");
	bool is_plain = !f->huffman && f->name_bytes == 11 && IS(f->bytes_of_line, "grpc-status");

	f->name = is_coded || is_plain ? NAME_GRPC_STATUS : 0;
	f->field = FIELD_VALUE_LENGTH;
}

/* Whether so many bits are a whole code; the shorter ones are smaller. */
static __always_inline bool code_ends(__u32 code, __u8 bits)
{
	switch (bits) {
	case 5:
		return code <= 0x9;
	case 6:
		return code <= 0x2d;
	case 7:
		return code <= 0x7b;
	case 8:
		return code <= 0xfd;
	case 10:
		return code <= 0x3fc;
	case 11:
		return code <= 0x7fc;
	case 12:
		return code <= 0xffb;
	case 13:
		return code <= 0x1ffd;
	case 14:
		return code <= 0x3ffd;
	case 15:
		return code <= 0x7ffe;
	default:
		return false;
	}
}

/* Ends the path in front of a '?' in Huffman code, whose first bits, all ones, are what a text is filled up with. */
ENTRY find_query(struct flow *f, __u32 byte)
{
	if (!f)
		return 0;
	for (__u32 i = 0; i < 8; i++) {
		f->code = f->code << 1 | (byte >> (7 - i) & 1);
		f->code_bits++;
		if (f->code_bits == CODE_QUERY_BITS && f->code == CODE_QUERY) {
			f->query = 1;
			f->kept = (f->kept * 8u + i + 1 - CODE_QUERY_BITS + 7) / 8;
			return 0;
		}
		if (code_ends(f->code, f->code_bits)) {
			f->code = 0;
			f->code_bits = 0;
		} else if (f->code_bits > CODE_BITS_MAX) {
			f->query = 1;
			f->kept = 0xffff;
			return 0;
		}
	}
	return 0;
}

/* What is looked for of a value: of a path what is in front of its query. */
static __always_inline void value_byte(struct flow *f, __u8 b)
{
	int wanted = field_wanted(f);
	__u32 at;

	if (wanted == FIELD_PATH && !f->query) {
		if (f->huffman)
			find_query(f, b);
		else
			f->query = b == '?';
	}
	if (f->query)
		return;
	at = f->kept;
	if (at < RECORD_FIELD_SIZE && wanted >= 0)
		f->text[at] = (char)b;
	if (f->kept < 0xffff)
		f->kept++;
}

static __always_inline bool text_is_unwanted(const struct flow *f)
{
	if (!f->left || !f->block)
		return false;
	if (f->field == FIELD_VALUE_BYTES)
		return !f->kept && field_wanted(f) < 0;
	/* The lengths of grpc-status, in Huffman code and without. */
	return f->field == FIELD_NAME_BYTES && !f->name_bytes && f->left != 8 && f->left != 11;
}

ENTRY field_byte(struct pass *p, struct flow *f, __u32 byte)
{
	__u8 b = (__u8)byte;
	__u32 at;

	if (!p || !f)
		return 0;
	switch (f->field) {
	case FIELD_BEGIN:
		f->kind = b & 0x80 ? KIND_INDEXED : b & 0x40 ? KIND_INSERTED : b & 0x20 ? KIND_RESIZE : KIND_LITERAL;
		if (number_begin(f, b, f->kind == KIND_INDEXED ? 0x7f : f->kind == KIND_INSERTED ? 0x3f : f->kind == KIND_RESIZE ? 0x1f : 0x0f))
			index_end(f);
		else
			f->field = FIELD_INDEX;
		break;
	case FIELD_INDEX:
		if (number_byte(p, f, b))
			index_end(f);
		break;
	case FIELD_NAME_LENGTH:
	case FIELD_VALUE_LENGTH:
		f->huffman = b >> 7;
		if (!number_begin(f, b, 0x7f))
			f->field++;
		else if (f->field == FIELD_NAME_LENGTH)
			name_begin(f);
		else
			value_begin(p, f);
		break;
	case FIELD_NAME_LENGTH_ON:
		if (number_byte(p, f, b))
			name_begin(f);
		break;
	case FIELD_VALUE_LENGTH_ON:
		if (number_byte(p, f, b))
			value_begin(p, f);
		break;
	case FIELD_NAME_BYTES:
		at = f->name_bytes;
		if (at < LINE_BYTES)
			f->bytes_of_line[at] = (char)b;
		if (f->name_bytes < 0xffff)
			f->name_bytes++;
		if (!--f->left)
			name_end(f);
		break;
	case FIELD_VALUE_BYTES:
		value_byte(f, b);
		if (!--f->left)
			field_end(p, f);
		break;
	}
	if (p->dead)
		return 0;
	f->block--;
	if (text_is_unwanted(f))
		text_skip(f);
	if (!f->block && !f->skip)
		block_end(p, f);
	return 0;
}

static __always_inline bool is_method(const __u8 *raw)
{
	for (int i = 0; i < FRAME_BYTES; i++) {
		if (raw[i] == ' ')
			return i >= 3;
		if (raw[i] < 'A' || raw[i] > 'Z')
			return false;
	}
	return false;
}

/* In the middle of a connection nine bytes alone prove nothing: the frame ends with the call, or another one follows. */
static __always_inline bool frame_is_followed(struct pass *p, const struct flow *f)
{
	__u32 length = (__u32)f->raw[0] << 16 | (__u32)f->raw[1] << 8 | f->raw[2];
	__u8 next[FRAME_BYTES + 3] = {};

	if (f->raw[3] == 1 && length > FIRST_BLOCK_MAX)
		return false;
	if (length == p->left)
		return true;
	if (length + FRAME_BYTES > p->room || !p->address)
		return false;
	return !bpf_probe_read_user(next, FRAME_BYTES, (void *)(p->address + length)) && is_frame(next);
}

/* The first nine bytes of a message are there. */
ENTRY detect(struct pass *p, struct flow *f)
{
	bool request;

	if (!p || !f)
		return 0;
	request = is_method(f->raw);
	f->n = 0;
	if (IS(f->raw, "PRI * HTT")) {
		f->protocol = MESSAGE_HTTP2;
		f->state = STATE_FRAME;
		f->skip = 24 - FRAME_BYTES;
		f->fields_lost = 0;
		f->inserted = 0;
		f->stream = 0;
		send_message(p, f, MESSAGE_PREFACE);
		return 0;
	}
	if (request || IS(f->raw, "HTTP/1.")) {
		f->protocol = MESSAGE_HTTP1;
		f->state = STATE_LINE;
		f->first_line = 1;
		f->line = 0;
		f->began = f->raw_began;
		f->is_request = request;
		f->spaces = f->query = f->chunked = f->has_length = 0;
		f->status = f->kept = 0;
		f->length = 0;
		f->stream = 0;
		f->pending = MESSAGE_FIRST;
		for (int i = 0; i < FRAME_BYTES; i++)
			head_byte(p, f, f->raw[i]);
		return 0;
	}
	if (f->raw[0] >= 0x14 && f->raw[0] <= 0x17 && f->raw[1] == 3 && f->raw[2] <= 4) {
		if (!f->told)
			send_unseen(p->now, p->tid, p->target, p->sock, p->inode, UNSEEN_TLS);
		f->told = 1;
		p->dead = 1;
		return 0;
	}
	if (is_frame(f->raw) && f->raw[3] != 9 && frame_is_followed(p, f)) {
		/* What was put into the tables before is not known. */
		frame_begin(p, f);
		return 0;
	}
	flow_unknown(p, f);
	return 0;
}

ENTRY flow_byte(struct pass *p, struct flow *f, __u32 byte)
{
	__u8 b = (__u8)byte;
	__u32 at;

	if (!p || !f)
		return 0;
	switch (f->state) {
	case STATE_DETECT:
		/* Empty lines may come before a request. */
		if (!f->n && (b == '\r' || b == '\n'))
			break;
		/* fall through */
	case STATE_FRAME:
		if (!f->n) {
			f->raw_began = p->began;
			if (f->state == STATE_DETECT)
				f->bytes = 1;
		}
		at = f->n;
		if (at < FRAME_BYTES)
			f->raw[at] = b;
		if (++f->n < FRAME_BYTES)
			break;
		if (f->state == STATE_DETECT)
			detect(p, f);
		else
			frame_begin(p, f);
		break;
	case STATE_LINE:
		head_byte(p, f, b);
		break;
	case STATE_CHUNK:
		chunk_byte(p, f, b);
		break;
	case STATE_TRAILER:
		trailer_byte(p, f, b);
		break;
	case STATE_PADDING:
		padding_byte(p, f, b);
		break;
	case STATE_BLOCK:
		field_byte(p, f, b);
		break;
	}
	return 0;
}

/* All that was to be passed over has passed. */
ENTRY flow_skipped(struct pass *p, struct flow *f)
{
	if (!p || !f)
		return 0;
	switch (f->state) {
	case STATE_BODY:
		message_end(p, f);
		break;
	case STATE_FRAME:
		frame_end(p, f);
		break;
	case STATE_BLOCK:
		/* A text was passed over, or what is before the block. */
		if (!f->left && f->field == FIELD_NAME_BYTES)
			name_end(f);
		else if (!f->left && f->field == FIELD_VALUE_BYTES)
			field_end(p, f);
		if (!f->block)
			block_end(p, f);
		break;
	}
	return 0;
}

static __always_inline void pass_take(struct pass *p, struct flow *f, __u64 n)
{
	p->address += n;
	p->room -= n;
	p->left -= n;
	p->position += (__u32)n;
	if (f->protocol != MESSAGE_HTTP2)
		f->bytes += (__u32)n;
}

/* Passes over what is left of a line that nobody asks for, as far as it was copied; 0: its end is next. */
ENTRY line_pass(struct pass *p, struct flow *f, struct window *w, __u32 from)
{
	__u32 n = 0;

	if (!p || !f || !w)
		return 0;
	for (__u32 i = 0; i < WINDOW_BYTES; i++) {
		if (from + i >= p->window_bytes || w->bytes[(from + i) % WINDOW_BYTES] == '\n')
			break;
		n++;
	}
	pass_take(p, f, n);
	return n > 0;
}

/* What a step works on. */
struct steps {
	struct flow *flow;
	struct window *window;
	struct pass pass;
};

/* The next byte, or all that can be passed over at once, or the next piece. */
static long pass_step(__u32 i, struct steps *s)
{
	struct flow *f = s->flow;
	struct window *w = s->window;
	struct pass *p = &s->pass;
	__u64 at;

	if (!p->left || p->dead || !f || !w)
		return 1;
	if (!p->room) {
		struct iovec v = {};

		if (!p->vector || ++p->pieces > PIECES_MAX || bpf_probe_read_user(&v, sizeof(v), (void *)p->vector)) {
			p->unread = 1;
			return 1;
		}
		p->vector += sizeof(v);
		p->address = (__u64)v.iov_base;
		p->room = v.iov_len < p->left ? v.iov_len : p->left;
		return 0;
	}
	if (f->skip) {
		__u64 n = f->skip < p->room ? f->skip : p->room;

		f->skip -= n;
		pass_take(p, f, n);
		if (!f->skip)
			flow_skipped(p, f);
		return 0;
	}
	at = p->address - p->window_at;
	if (at >= p->window_bytes) {
		__u32 n = p->room < WINDOW_BYTES ? (__u32)p->room : WINDOW_BYTES;

		if (!p->address || bpf_probe_read_user(w->bytes, n, (void *)p->address)) {
			p->unread = 1;
			return 1;
		}
		p->window_at = p->address;
		p->window_bytes = n;
		at = 0;
	}
	if (f->state == STATE_LINE && f->passing && !f->first_line && line_pass(p, f, w, (__u32)at))
		return 0;
	pass_take(p, f, 1);
	if (at < WINDOW_BYTES)
		flow_byte(p, f, w->bytes[at]);
	return 0;
}

/* The state of one direction, made when it is new. */
static __always_inline struct flow *flow_get(const struct flow_key *key, const struct window *w)
{
	struct flow *f = bpf_map_lookup_elem(&flows, key);

	if (f)
		return f;
	bpf_map_update_elem(&flows, key, &w->fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&flows, key);
}

static __always_inline void pass_place(struct pass *p, const struct place *place)
{
	p->sock = place->key.sock;
	p->inode = place->key.inode;
	p->local_port = place->local_port;
	p->peer_port = place->peer_port;
	p->server = place->server;
}

/* The sequence number behind the last byte that was read. */
static __always_inline __u32 read_position(struct tcp_sock *tp)
{
	__u8 state = BPF_CORE_READ((struct sock *)tp, __sk_common.skc_state);
	__u32 end = BPF_CORE_READ(tp, copied_seq);
	bool ended = state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING;

	/* The peer's FIN has a number, too. */
	return ended && end == BPF_CORE_READ(tp, rcv_nxt) ? end - 1 : end;
}

static __always_inline void follow(struct steps *s, const struct place *place, __u64 bytes)
{
	struct flow_key key = place->key;
	struct pass *p = &s->pass;
	__u32 zero = 0, end = 0;
	struct flow *f;

	key.direction = p->direction;
	s->window = bpf_map_lookup_elem(&windows, &zero);
	if (!s->window)
		return;
	f = s->flow = flow_get(&key, s->window);
	if (!f) {
		COUNT(p->cpu, flows_full);
		return;
	}
	/* Of two threads at one direction of a connection the second is left out; that its bytes are missing is seen by their number. */
	if (*(volatile __u8 *)&f->busy)
		return;
	*(volatile __u8 *)&f->busy = 1;
	p->left = bytes;
	pass_place(p, place);
	if (place->tcp) {
		struct tcp_sock *tp = (struct tcp_sock *)key.sock;

		end = p->direction == MESSAGE_READ ? read_position(tp) : BPF_CORE_READ(tp, write_seq);
		p->position = end - (__u32)bytes;
		if (f->followed && f->expected != p->position) {
			flow_lost(p, f);
			p->dead = 0;
		}
		f->expected = end;
		f->followed = 1;
	}
	bpf_loop(STEPS_MAX, pass_step, s, 0);
	if (p->unread || (p->left && !p->dead))
		flow_lost(p, f);
	/* Before the end of its first line nobody knows that it is a message. */
	if (f->pending && !f->first_line) {
		if (!p->dead)
			send_message(p, f, f->pending);
		f->pending = 0;
	}
	f->last_ns = p->now;
	*(volatile __u8 *)&f->busy = 0;
}

struct file___counted {
	atomic_long_t f_count;
} __attribute__((preserve_access_index));

/* Whether the file stays when a descriptor of it is closed; also while another thread is in a call with it. */
static __always_inline bool is_shared(struct file *file)
{
	if (bpf_core_field_exists(((struct file___counted *)file)->f_count))
		return BPF_CORE_READ((struct file___counted *)file, f_count.counter) > 1;
	/* One less than there are. */
	return BPF_CORE_READ(file, f_ref.refcnt.counter) > 0;
}

/* Both directions end with the descriptor, unless it is one of several. */
static __always_inline void on_close(struct pass *p, __u32 fd, bool forget)
{
	struct place place;
	struct flow *f;

	if (!find_place(fd, &place) || (forget && is_shared(file_of(fd))))
		return;
	/* Of a connection on which nothing was written, by what was read. */
	place.key.direction = p->direction = MESSAGE_WRITTEN;
	f = bpf_map_lookup_elem(&flows, &place.key);
	if (!f) {
		place.key.direction = p->direction = MESSAGE_READ;
		f = bpf_map_lookup_elem(&flows, &place.key);
	}
	if (f) {
		bool ends = p->direction == MESSAGE_WRITTEN && f->state == STATE_UNTIL_CLOSE;

		pass_place(p, &place);
		p->began = f->last_ns;
		send_message(p, f, MESSAGE_CLOSED | (ends ? MESSAGE_LAST : 0));
		if (ends)
			flow_restart(f);
	}
	if (!forget)
		return;
	place.key.direction = MESSAGE_WRITTEN;
	bpf_map_delete_elem(&flows, &place.key);
	place.key.direction = MESSAGE_READ;
	bpf_map_delete_elem(&flows, &place.key);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long id)
{
	__u64 self, now;
	__u32 tid;
	int target;

	if (!is_followed(id))
		return 0;
	self = bpf_get_current_pid_tgid();
	target = target_index(self >> 32);
	if (target < 0)
		return 0;
	now = bpf_ktime_get_ns();
	if (!window_open(now))
		return 0;
	tid = (__u32)self;
	if (id == CALL_CLOSE || id == CALL_SHUTDOWN) {
		struct pass p = { .now = now, .began = now, .tid = tid, .cpu = bpf_get_smp_processor_id(), .target = target };

		/* SHUT_WR and SHUT_RDWR */
		if (id == CALL_CLOSE || regs->si)
			on_close(&p, (__u32)regs->di, id == CALL_CLOSE);
		return 0;
	}
	if (id == CALL_IO_URING_ENTER) {
		/* Once: no thread has such a number. */
		tid = 1u << 31 | (__u32)target;
		if (!bpf_map_update_elem(&calls, &tid, &now, BPF_NOEXIST))
			send_unseen(now, (__u32)self, target, 0, 0, UNSEEN_IO_URING);
		return 0;
	}
	if (bpf_map_update_elem(&calls, &tid, &now, BPF_ANY))
		COUNT(bpf_get_smp_processor_id(), flows_full);
	return 0;
}

static __always_inline void listener_add(const struct serving_port *port, struct sock *sk, __u32 target)
{
	struct serving_socket l = { .target = target, .uid = BPF_CORE_READ(sk, sk_uid.val) };

	bpf_map_update_elem(&listeners, port, &l, BPF_NOEXIST);
}

static __always_inline void on_accept(__u32 fd, __u32 target)
{
	const struct window *w;
	struct serving_port l;
	struct place place;
	struct flow *f;
	__u32 zero = 0;

	if (!find_place(fd, &place))
		return;
	place.key.direction = MESSAGE_READ;
	w = bpf_map_lookup_elem(&windows, &zero);
	f = w ? flow_get(&place.key, w) : NULL;
	if (f)
		f->accepted = 1;
	if (!place.net)
		return;
	l = (struct serving_port){ .net = place.net, .port = place.local_port };
	listener_add(&l, (struct sock *)place.key.sock, target);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long result)
{
	struct steps s = {};
	struct pass *p = &s.pass;
	struct place place;
	long id = (long)regs->orig_ax;
	__u32 fd = (__u32)regs->di, flags = 0;
	__u64 self, *began;
	int target;

	if (!is_followed(id) || id == CALL_CLOSE || id == CALL_SHUTDOWN || id == CALL_IO_URING_ENTER)
		return 0;
	self = bpf_get_current_pid_tgid();
	target = target_index(self >> 32);
	if (target < 0)
		return 0;
	p->now = bpf_ktime_get_ns();
	if (!window_open(p->now))
		return 0;
	p->tid = (__u32)self;
	p->cpu = bpf_get_smp_processor_id();
	p->target = target;
	/* Threads come and go; their entries do not stay. */
	began = bpf_map_lookup_elem(&calls, &p->tid);
	p->began = began ? *began : p->now;
	bpf_map_delete_elem(&calls, &p->tid);
	if (result < 0)
		return 0;
	if (id == CALL_ACCEPT || id == CALL_ACCEPT4) {
		on_accept((__u32)result, target);
		return 0;
	}
	if (!result)
		return 0;
	p->direction = MESSAGE_WRITTEN;
	switch (id) {
	case CALL_READ:
		p->direction = MESSAGE_READ;
		/* fall through */
	case CALL_WRITE:
		p->address = regs->si;
		break;
	case CALL_RECVFROM:
		p->direction = MESSAGE_READ;
		flags = (__u32)regs->r10;
		/* fall through */
	case CALL_SENDTO:
		p->address = regs->si;
		break;
	case CALL_READV:
		p->direction = MESSAGE_READ;
		/* fall through */
	case CALL_WRITEV:
		p->vector = regs->si;
		break;
	case CALL_RECVMSG:
		p->direction = MESSAGE_READ;
		flags = (__u32)regs->dx;
		/* fall through */
	case CALL_SENDMSG:
		if (bpf_probe_read_user(&p->vector, sizeof(p->vector), (void *)(regs->si + 16 /* msg_iov */)))
			return 0;
		break;
	case CALL_SPLICE:
		/* Into the socket, or out of it: no bytes in user memory either way. */
		if (!find_place(fd, &place))
			fd = (__u32)regs->dx;
		else
			p->direction = MESSAGE_READ;
		break;
	case CALL_SENDFILE:
		break;
	default:
		return 0;
	}
	if (flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE))
		return 0;
	/* They were thrown away, not copied. */
	if (flags & MSG_TRUNC) {
		p->address = 0;
		p->vector = 0;
	}
	if (!find_place(fd, &place))
		return 0;
	/* A piece of which only the length is known can be passed over, not read. */
	if (!p->vector)
		p->room = (__u64)result;
	follow(&s, &place, (__u64)result);
	return 0;
}

/* In the sender's, or the network's, context. */
SEC("tp_btf/sk_data_ready")
int BPF_PROG(on_data_ready, struct sock *sk)
{
	struct record_ready *r;
	struct serving_port l;
	const struct serving_socket *listener;
	__u64 now, address;
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	if ((family != AF_INET && family != AF_INET6) || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	now = bpf_ktime_get_ns();
	if (!window_open(now))
		return 0;
	listener_of(sk, &l);
	listener = bpf_map_lookup_elem(&listeners, &l);
	/* A connection that nobody has accepted yet comes to its listener. */
	if (!listener || BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_LISTEN || BPF_CORE_READ(sk, sk_uid.val) != listener->uid)
		return 0;
	/* The verifier lets nobody compute with the pointer itself. */
	if (bpf_probe_read_kernel(&address, sizeof(address), ctx))
		return 0;
	r = record_reserve(bpf_get_smp_processor_id(), sizeof(*r));
	if (!r)
		return 0;
	record_head(&r->head, now, 0, RECORD_READY, sizeof(*r));
	r->head.target = (__u8)listener->target;
	r->socket = socket_number(address);
	r->position = BPF_CORE_READ((struct tcp_sock *)sk, rcv_nxt);
	r->reserved = 0;
	record_submit(r);
	return 0;
}

static __always_inline bool is_io_uring(struct file *file)
{
	const unsigned char *name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	char text[sizeof("[io_uring]")] = {};

	return bpf_probe_read_kernel_str(text, sizeof(text), name) == sizeof(text) && IS(text, "[io_uring]");
}

/* Run by user space before the window opens: where the targets serve. */
SEC("iter/task_file")
int find_listeners(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct serving_port l;
	struct sock *sk;
	int index;

	if (!task || !file)
		return 0;
	index = target_index(task->tgid);
	if (index < 0)
		return 0;
	if (!is_socket(file)) {
		if (is_io_uring(file))
			send_unseen(bpf_ktime_get_ns(), task->pid, index, 0, 0, UNSEEN_IO_URING);
		return 0;
	}
	sk = sock_of_file(file);
	if (!sk || BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_LISTEN)
		return 0;
	listener_of(sk, &l);
	listener_add(&l, sk, (__u32)index);
	return 0;
}
