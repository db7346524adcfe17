/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static probes (USDT) for programs that are observed with tfprofd, bpftrace, perf, gdb or
 * SystemTap. Header only: there is nothing to link.
 *
 *	#include "tfprof.h"
 *
 *	TFPROF_PROBE(server, batch_formed, batch, n_requests);
 *
 * A probe is a nop of one byte; a note in the file, which is not loaded, describes it. Each
 * argument is evaluated once, whether or not a tool is attached; at the nop it is a constant or in
 * a register, as described in the note. What it points to has been stored in memory.
 *
 *   TFPROF_PROBE(provider, name, ...)            a probe with 0 to 6 arguments. An argument is an
 *                                                integer, bool, enumeration, pointer, array or
 *                                                function (the latter two as pointers) of at most
 *                                                8 bytes; bit-fields need a cast. Other types do
 *                                                not compile. Provider and name are identifiers;
 *                                                one that is defined as a macro is expanded.
 *   TFPROF_DEFINE_SEMAPHORE(provider, name);     at file scope, in every file that uses the next
 *                                                two; they share one semaphore within an
 *                                                executable or a shared library.
 *   TFPROF_PROBE_SEMAPHORE(provider, name, ...)  a probe whose semaphore is raised by attached
 *                                                tools.
 *   tfprof_span_begin(text, bytes)               what the thread does from here until
 *                                                tfprof_span_end(), in the program's own words,
 *                                                which tfprofd shows on the thread's line: "name"
 *                                                or "name#key=value,key=value#", of which 96 bytes
 *                                                are kept. The arguments are shown as they are;
 *                                                request_id=N and step_num=N are numbers that
 *                                                pages use, too. They nest, 16 deep.
 *   tfprof_work_made(id)                         the thread that has read a request calls this,
 *                                                before it reads the next one, for each piece of
 *                                                work that it makes of it for any thread; id is a
 *                                                number that no unfinished work has, such as the
 *                                                address of a queue's entry
 *   tfprof_work_begin(id), tfprof_work_end(id)   around what a thread does for that work. Work that
 *                                                is made in between is of the same request. So
 *                                                tfprofd knows the request of each run, whichever
 *                                                threads read, run and write.
 *   TFPROF_ENABLED(provider, name)               whether a tool is attached; for arguments that
 *                                                are expensive to compute:
 *
 *	TFPROF_DEFINE_SEMAPHORE(server, shape);
 *	if (TFPROF_ENABLED(server, shape))
 *		TFPROF_PROBE_SEMAPHORE(server, shape, describe(tensor));
 *
 * For C99 and C++11 with the extensions of gcc and clang, on x86-64. Elsewhere, and where
 * TFPROF_DISABLE is defined, arguments are only evaluated. The notes are those of
 * SystemTap, version 3: https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
 */
#ifndef TFPROF_H
#define TFPROF_H

/* The macro for as many arguments as there are after provider and name. */
#define TFPROF_COUNT_(provider, name, a, b, c, d, e, f, count, ...) count
#define TFPROF_COUNT(...) TFPROF_COUNT_(__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0, too_few_arguments, )
#define TFPROF_JOIN_(a, b) a##b
#define TFPROF_JOIN(a, b) TFPROF_JOIN_(a, b)

#if defined(__x86_64__) && defined(__LP64__) && defined(__GNUC__) && defined(__ELF__) &&           \
	!defined(TFPROF_DISABLE)

#ifdef __cplusplus

/* TFPROF_SIZE is the size in bytes, negative when the type is signed, as the note has it. */
#define TFPROF_SIZE(value) (::tfprof_argument<decltype(value)>::size)
#define TFPROF_VALUE auto
#define TFPROF_CHECK(value)                                                                        \
	static_assert(TFPROF_SIZE(value) != 0,                                                     \
		      "an argument of a probe is an integer, an enumeration or a pointer")

template <typename T, bool is_enum = __is_enum(T)> struct tfprof_argument {
	enum { size = 0 };
};
template <typename T> struct tfprof_argument<T, true> {
	enum { size = tfprof_argument<__underlying_type(T)>::size };
};
template <typename T> struct tfprof_argument<T *, false> {
	enum { size = sizeof(T *) };
};
#define TFPROF_INTEGER(type)                                                                       \
	template <> struct tfprof_argument<type, false> {                                          \
		enum { size = (type)-1 < (type)1 ? -(int)sizeof(type) : (int)sizeof(type) };       \
	};
TFPROF_INTEGER(char)
TFPROF_INTEGER(signed char)
TFPROF_INTEGER(unsigned char)
TFPROF_INTEGER(short)
TFPROF_INTEGER(unsigned short)
TFPROF_INTEGER(int)
TFPROF_INTEGER(unsigned int)
TFPROF_INTEGER(long)
TFPROF_INTEGER(unsigned long)
TFPROF_INTEGER(long long)
TFPROF_INTEGER(unsigned long long)
TFPROF_INTEGER(char16_t)
TFPROF_INTEGER(char32_t)
TFPROF_INTEGER(wchar_t)
#undef TFPROF_INTEGER
template <> struct tfprof_argument<bool, false> {
	enum { size = sizeof(bool) };
};

#else

/* What is not listed is a pointer: TFPROF_CHECK has refused the rest. Enumerations are compatible
 * with an integer type. */
#define TFPROF_SIZE(value)                                                                         \
	(__extension__ _Generic((value), char                                                      \
				: (char)-1 < 1 ? -1 : 1, signed char                               \
				: -1, short                                                        \
				: -2, int                                                          \
				: -4, long                                                         \
				: -8, long long                                                    \
				: -8, default                                                      \
				: (int)sizeof(value)))
#define TFPROF_VALUE __extension__ __auto_type
/* Classes up to 5 are integers, characters, enumerations, booleans and pointers. */
#define TFPROF_CHECK(value)                                                                        \
	__extension__ _Static_assert(                                                              \
		__builtin_classify_type(value) > 0 && __builtin_classify_type(value) <= 5 &&       \
			sizeof(value) <= 8,                                                        \
		"an argument of a probe is an integer, an enumeration or a pointer")

#endif

/* Constants, otherwise registers: a tool can always read them, while memory may be absent, and few
 * tools know symbols. */
#define TFPROF_OPERAND "nr"

/*
 * The nop, and its note in the section group of the code, so that the linker drops both or neither.
 * All notes of a file contain the address of .stapsdt.base, from which a tool sees how far prelink
 * moved the file. The clobber of memory makes sure that what arguments point to has been stored.
 */
#define TFPROF_SITE(provider, name, semaphore, arguments, ...)                                     \
	__asm__ __volatile__(                                                                      \
		"990:\n"                                                                           \
		"\t.byte 0x90\n"                                                                   \
		"\t.pushsection .note.stapsdt, \"?\", \"note\"\n"                                  \
		"\t.balign 4\n"                                                                    \
		"\t.4byte 992f - 991f\n"                                                           \
		"\t.4byte 994f - 993f\n"                                                           \
		"\t.4byte 3\n"                                                                     \
		"991:\t.asciz \"stapsdt\"\n"                                                       \
		"992:\t.balign 4\n"                                                                \
		"993:\t.8byte 990b\n"                                                              \
		"\t.8byte _.stapsdt.base\n"                                                        \
		"\t.8byte " semaphore "\n"                                                         \
		"\t.asciz \"" provider "\"\n"                                                      \
		"\t.asciz \"" name "\"\n"                                                          \
		"\t.asciz \"" arguments "\"\n"                                                     \
		"994:\t.balign 4\n"                                                                \
		"\t.popsection\n"                                                                  \
		"\t.ifndef _.stapsdt.base\n"                                                       \
		"\t.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"      \
		"\t.weak _.stapsdt.base\n"                                                         \
		"\t.hidden _.stapsdt.base\n"                                                       \
		"_.stapsdt.base:\n"                                                                \
		"\t.zero 1\n"                                                                      \
		"\t.size _.stapsdt.base, 1\n"                                                      \
		"\t.popsection\n"                                                                  \
		"\t.endif\n"                                                                       \
		:                                                                                  \
		: __VA_ARGS__                                                                      \
		: "memory")

#define TFPROF_TAKE(n, value) TFPROF_VALUE tfprof_##n##_ = (value)
#define TFPROF_TEXT(n) "%c[size" #n "]@%[value" #n "]"
#define TFPROF_INPUT(n)                                                                            \
	[size##n] "n"(TFPROF_SIZE(tfprof_##n##_)), [value##n] TFPROF_OPERAND(tfprof_##n##_)

#define TFPROF_ARGUMENTS_0(p, s, m) TFPROF_SITE(p, s, m, "", [none] "n"(0))
#define TFPROF_ARGUMENTS_1(p, s, m, a)                                                             \
	TFPROF_TAKE(1, a);                                                                         \
	TFPROF_CHECK(tfprof_1_);                                                                   \
	TFPROF_SITE(p, s, m, TFPROF_TEXT(1), TFPROF_INPUT(1))
#define TFPROF_ARGUMENTS_2(p, s, m, a, b)                                                          \
	TFPROF_TAKE(1, a);                                                                         \
	TFPROF_TAKE(2, b);                                                                         \
	TFPROF_CHECK(tfprof_1_);                                                                   \
	TFPROF_CHECK(tfprof_2_);                                                                   \
	TFPROF_SITE(p, s, m, TFPROF_TEXT(1) " " TFPROF_TEXT(2), TFPROF_INPUT(1), TFPROF_INPUT(2))
#define TFPROF_ARGUMENTS_3(p, s, m, a, b, c)                                                       \
	TFPROF_TAKE(1, a);                                                                         \
	TFPROF_TAKE(2, b);                                                                         \
	TFPROF_TAKE(3, c);                                                                         \
	TFPROF_CHECK(tfprof_1_);                                                                   \
	TFPROF_CHECK(tfprof_2_);                                                                   \
	TFPROF_CHECK(tfprof_3_);                                                                   \
	TFPROF_SITE(p, s, m, TFPROF_TEXT(1) " " TFPROF_TEXT(2) " " TFPROF_TEXT(3),                 \
		    TFPROF_INPUT(1), TFPROF_INPUT(2), TFPROF_INPUT(3))
#define TFPROF_ARGUMENTS_4(p, s, m, a, b, c, d)                                                    \
	TFPROF_TAKE(1, a);                                                                         \
	TFPROF_TAKE(2, b);                                                                         \
	TFPROF_TAKE(3, c);                                                                         \
	TFPROF_TAKE(4, d);                                                                         \
	TFPROF_CHECK(tfprof_1_);                                                                   \
	TFPROF_CHECK(tfprof_2_);                                                                   \
	TFPROF_CHECK(tfprof_3_);                                                                   \
	TFPROF_CHECK(tfprof_4_);                                                                   \
	TFPROF_SITE(p, s, m,                                                                       \
		    TFPROF_TEXT(1) " " TFPROF_TEXT(2) " " TFPROF_TEXT(3) " " TFPROF_TEXT(4),       \
		    TFPROF_INPUT(1), TFPROF_INPUT(2), TFPROF_INPUT(3), TFPROF_INPUT(4))
#define TFPROF_ARGUMENTS_5(p, s, m, a, b, c, d, e)                                                 \
	TFPROF_TAKE(1, a);                                                                         \
	TFPROF_TAKE(2, b);                                                                         \
	TFPROF_TAKE(3, c);                                                                         \
	TFPROF_TAKE(4, d);                                                                         \
	TFPROF_TAKE(5, e);                                                                         \
	TFPROF_CHECK(tfprof_1_);                                                                   \
	TFPROF_CHECK(tfprof_2_);                                                                   \
	TFPROF_CHECK(tfprof_3_);                                                                   \
	TFPROF_CHECK(tfprof_4_);                                                                   \
	TFPROF_CHECK(tfprof_5_);                                                                   \
	TFPROF_SITE(p, s, m,                                                                       \
		    TFPROF_TEXT(1) " " TFPROF_TEXT(2) " " TFPROF_TEXT(3) " " TFPROF_TEXT(          \
			    4) " " TFPROF_TEXT(5),                                                 \
		    TFPROF_INPUT(1), TFPROF_INPUT(2), TFPROF_INPUT(3), TFPROF_INPUT(4),            \
		    TFPROF_INPUT(5))
#define TFPROF_ARGUMENTS_6(p, s, m, a, b, c, d, e, f)                                              \
	TFPROF_TAKE(1, a);                                                                         \
	TFPROF_TAKE(2, b);                                                                         \
	TFPROF_TAKE(3, c);                                                                         \
	TFPROF_TAKE(4, d);                                                                         \
	TFPROF_TAKE(5, e);                                                                         \
	TFPROF_TAKE(6, f);                                                                         \
	TFPROF_CHECK(tfprof_1_);                                                                   \
	TFPROF_CHECK(tfprof_2_);                                                                   \
	TFPROF_CHECK(tfprof_3_);                                                                   \
	TFPROF_CHECK(tfprof_4_);                                                                   \
	TFPROF_CHECK(tfprof_5_);                                                                   \
	TFPROF_CHECK(tfprof_6_);                                                                   \
	TFPROF_SITE(p, s, m,                                                                       \
		    TFPROF_TEXT(1) " " TFPROF_TEXT(2) " " TFPROF_TEXT(3) " " TFPROF_TEXT(          \
			    4) " " TFPROF_TEXT(5) " " TFPROF_TEXT(6),                              \
		    TFPROF_INPUT(1), TFPROF_INPUT(2), TFPROF_INPUT(3), TFPROF_INPUT(4),            \
		    TFPROF_INPUT(5), TFPROF_INPUT(6))

/* Provider and name become strings here; the rest goes to the macro for that many arguments. */
#define TFPROF_PROBE_0(provider, name) TFPROF_ARGUMENTS_0(#provider, #name, "0")
#define TFPROF_PROBE_1(provider, name, ...) TFPROF_ARGUMENTS_1(#provider, #name, "0", __VA_ARGS__)
#define TFPROF_PROBE_2(provider, name, ...) TFPROF_ARGUMENTS_2(#provider, #name, "0", __VA_ARGS__)
#define TFPROF_PROBE_3(provider, name, ...) TFPROF_ARGUMENTS_3(#provider, #name, "0", __VA_ARGS__)
#define TFPROF_PROBE_4(provider, name, ...) TFPROF_ARGUMENTS_4(#provider, #name, "0", __VA_ARGS__)
#define TFPROF_PROBE_5(provider, name, ...) TFPROF_ARGUMENTS_5(#provider, #name, "0", __VA_ARGS__)
#define TFPROF_PROBE_6(provider, name, ...) TFPROF_ARGUMENTS_6(#provider, #name, "0", __VA_ARGS__)
#define TFPROF_SEMAPHORE_TEXT(provider, name) #provider "_" #name "_semaphore"
#define TFPROF_GUARDED_0(provider, name)                                                           \
	TFPROF_ARGUMENTS_0(#provider, #name, TFPROF_SEMAPHORE_TEXT(provider, name))
#define TFPROF_GUARDED_1(provider, name, ...)                                                      \
	TFPROF_ARGUMENTS_1(#provider, #name, TFPROF_SEMAPHORE_TEXT(provider, name), __VA_ARGS__)
#define TFPROF_GUARDED_2(provider, name, ...)                                                      \
	TFPROF_ARGUMENTS_2(#provider, #name, TFPROF_SEMAPHORE_TEXT(provider, name), __VA_ARGS__)
#define TFPROF_GUARDED_3(provider, name, ...)                                                      \
	TFPROF_ARGUMENTS_3(#provider, #name, TFPROF_SEMAPHORE_TEXT(provider, name), __VA_ARGS__)
#define TFPROF_GUARDED_4(provider, name, ...)                                                      \
	TFPROF_ARGUMENTS_4(#provider, #name, TFPROF_SEMAPHORE_TEXT(provider, name), __VA_ARGS__)
#define TFPROF_GUARDED_5(provider, name, ...)                                                      \
	TFPROF_ARGUMENTS_5(#provider, #name, TFPROF_SEMAPHORE_TEXT(provider, name), __VA_ARGS__)
#define TFPROF_GUARDED_6(provider, name, ...)                                                      \
	TFPROF_ARGUMENTS_6(#provider, #name, TFPROF_SEMAPHORE_TEXT(provider, name), __VA_ARGS__)

#define TFPROF_PROBE(...)                                                                          \
	do {                                                                                       \
		TFPROF_JOIN(TFPROF_PROBE_, TFPROF_COUNT(__VA_ARGS__))(__VA_ARGS__);                \
	} while (0)

#define TFPROF_PROBE_SEMAPHORE(...)                                                                \
	do {                                                                                       \
		TFPROF_JOIN(TFPROF_GUARDED_, TFPROF_COUNT(__VA_ARGS__))(__VA_ARGS__);              \
	} while (0)

/* The kernel counts the attached tools in it; hidden, because each shared library has its own. */
#define TFPROF_DEFINE_SEMAPHORE(provider, name)                                                    \
	__extension__ extern volatile unsigned short                                               \
		tfprof_##provider##_##name##_semaphore __asm__(#provider "_" #name "_semaphore");  \
	volatile unsigned short tfprof_##provider##_##name##_semaphore                             \
		__attribute__((weak, used, visibility("hidden"), section(".probes"))) = 0

#define TFPROF_ENABLED(provider, name)                                                             \
	__builtin_expect(tfprof_##provider##_##name##_semaphore != 0, 0)

#else

#define TFPROF_NONE_0(provider, name) ((void)0)
#define TFPROF_NONE_1(provider, name, a) ((void)(a))
#define TFPROF_NONE_2(provider, name, a, b) ((void)(a), (void)(b))
#define TFPROF_NONE_3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define TFPROF_NONE_4(provider, name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#define TFPROF_NONE_5(provider, name, a, b, c, d, e)                                               \
	((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))
#define TFPROF_NONE_6(provider, name, a, b, c, d, e, f)                                            \
	((void)(a), (void)(b), (void)(c), (void)(d), (void)(e), (void)(f))

#define TFPROF_PROBE(...)                                                                          \
	do {                                                                                       \
		TFPROF_JOIN(TFPROF_NONE_, TFPROF_COUNT(__VA_ARGS__))(__VA_ARGS__);                 \
	} while (0)
#define TFPROF_PROBE_SEMAPHORE(...) TFPROF_PROBE(__VA_ARGS__)
#define TFPROF_DEFINE_SEMAPHORE(provider, name) struct tfprof_no_semaphore_##provider##_##name
#define TFPROF_ENABLED(provider, name) 0

#endif

/* Functions, so that each file of a program has one probe of each kind, however often it is
 * used. */
static __attribute__((noinline, unused)) void tfprof_span_begin(const char *text,
								unsigned long bytes)
{
	/* A constant could not be read as a register. */
	__asm__ __volatile__("" : "+r"(text), "+r"(bytes));
	TFPROF_PROBE(tfprof, span_begin, text, bytes);
}

static __attribute__((noinline, unused)) void tfprof_span_end(void)
{
	TFPROF_PROBE(tfprof, span_end);
}

static __attribute__((noinline, unused)) void tfprof_work_made(unsigned long long id)
{
	__asm__ __volatile__("" : "+r"(id));
	TFPROF_PROBE(tfprof, work_made, id);
}

static __attribute__((noinline, unused)) void tfprof_work_begin(unsigned long long id)
{
	__asm__ __volatile__("" : "+r"(id));
	TFPROF_PROBE(tfprof, work_begin, id);
}

static __attribute__((noinline, unused)) void tfprof_work_end(unsigned long long id)
{
	__asm__ __volatile__("" : "+r"(id));
	TFPROF_PROBE(tfprof, work_end, id);
}

#endif
