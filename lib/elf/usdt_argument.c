/* SPDX-License-Identifier: Apache-2.0 */
/* Part of usdt.h: the arguments of a site. */
#include <string.h>

#include "lib/base/macro.h"
#include "lib/elf/usdt.h"

/* The rest of one argument. */
struct cursor {
	const char *at, *end;
};

/* r8 to r15 are read by their number. */
struct register_name {
	char name[4];
	int8_t number;
	uint8_t bytes, shift;
};

static const struct register_name registers[] = {
	{ "rax", USDT_RAX, 8 },   { "eax", USDT_RAX, 4 },   { "ax", USDT_RAX, 2 },
	{ "al", USDT_RAX, 1 },    { "ah", USDT_RAX, 1, 8 }, { "rbx", USDT_RBX, 8 },
	{ "ebx", USDT_RBX, 4 },   { "bx", USDT_RBX, 2 },    { "bl", USDT_RBX, 1 },
	{ "bh", USDT_RBX, 1, 8 }, { "rcx", USDT_RCX, 8 },   { "ecx", USDT_RCX, 4 },
	{ "cx", USDT_RCX, 2 },    { "cl", USDT_RCX, 1 },    { "ch", USDT_RCX, 1, 8 },
	{ "rdx", USDT_RDX, 8 },   { "edx", USDT_RDX, 4 },   { "dx", USDT_RDX, 2 },
	{ "dl", USDT_RDX, 1 },    { "dh", USDT_RDX, 1, 8 }, { "rsi", USDT_RSI, 8 },
	{ "esi", USDT_RSI, 4 },   { "si", USDT_RSI, 2 },    { "sil", USDT_RSI, 1 },
	{ "rdi", USDT_RDI, 8 },   { "edi", USDT_RDI, 4 },   { "di", USDT_RDI, 2 },
	{ "dil", USDT_RDI, 1 },   { "rbp", USDT_RBP, 8 },   { "ebp", USDT_RBP, 4 },
	{ "bp", USDT_RBP, 2 },    { "bpl", USDT_RBP, 1 },   { "rsp", USDT_RSP, 8 },
	{ "esp", USDT_RSP, 4 },   { "sp", USDT_RSP, 2 },    { "spl", USDT_RSP, 1 },
	{ "rip", USDT_RIP, 8 },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       c == '.' || c == '$';
}

static char peek(const struct cursor *c)
{
	return c->at < c->end ? *c->at : 0;
}

static bool take(struct cursor *c, char wanted)
{
	if (peek(c) != wanted)
		return false;
	c->at++;
	return true;
}

/* Decimal, octal after 0 and hexadecimal after 0x, as in the assembler. */
static bool take_number(struct cursor *c, uint64_t *ret)
{
	unsigned base = 10;
	uint64_t number = 0;
	bool any = false;

	if (take(c, '0')) {
		base = take(c, 'x') ? 16 : 8;
		any = base == 8;
	}
	for (; is_word(peek(c)); c->at++) {
		char digit = *c->at;
		unsigned value = is_digit(digit)                ? (unsigned)(digit - '0')
				 : digit >= 'a' && digit <= 'f' ? (unsigned)(digit - 'a' + 10)
				 : digit >= 'A' && digit <= 'F' ? (unsigned)(digit - 'A' + 10)
								: 16;

		if (value >= base || __builtin_mul_overflow(number, base, &number) ||
		    __builtin_add_overflow(number, value, &number))
			return false;
		any = true;
	}
	*ret = number;
	return any;
}

/* The signed sum of numbers and at most one symbol, which is added. */
static bool take_sum(struct cursor *c, struct usdt_argument *ret)
{
	uint64_t sum = 0, number;

	for (bool first = true;; first = false) {
		bool minus = take(c, '-');

		if (!minus && !take(c, '+') && !first)
			break;
		if (is_digit(peek(c))) {
			if (!take_number(c, &number) ||
			    (number > INT64_MAX && number != UINT64_MAX / 2 + 1 &&
			     (minus || !first)))
				return false;
			sum += minus ? -number : number;
			continue;
		}
		if (minus || ret->symbol || !is_word(peek(c)))
			return false;
		ret->symbol = c->at;
		while (is_word(peek(c)))
			c->at++;
		ret->symbol_length = (size_t)(c->at - ret->symbol);
	}
	ret->value = (int64_t)sum;
	return true;
}

static bool find_numbered(const char *name, size_t length, struct register_name *ret)
{
	static const int8_t numbers[] = { USDT_R8,  USDT_R9,  USDT_R10, USDT_R11,
					  USDT_R12, USDT_R13, USDT_R14, USDT_R15 };
	unsigned number = 0, digits = 0;

	for (name++, length--; digits < length && is_digit(name[digits]); digits++)
		number = number * 10 + (unsigned)(name[digits] - '0');
	if (!digits || digits > 2 || name[0] == '0' || number < 8 || number > 15 ||
	    length - digits > 1)
		return false;
	ret->number = numbers[number - 8];
	if (length == digits)
		ret->bytes = 8;
	else if (name[digits] == 'd')
		ret->bytes = 4;
	else if (name[digits] == 'w')
		ret->bytes = 2;
	else if (name[digits] == 'b')
		ret->bytes = 1;
	else
		return false;
	ret->shift = 0;
	return true;
}

/* A register after its %. */
static bool take_register(struct cursor *c, struct register_name *ret)
{
	const char *name = c->at;
	size_t length;

	while (is_word(peek(c)))
		c->at++;
	length = (size_t)(c->at - name);
	for (size_t i = 0; i < ARRAY_SIZE(registers); i++)
		if (strnlen(registers[i].name, sizeof(registers[i].name)) == length &&
		    !memcmp(registers[i].name, name, length)) {
			*ret = registers[i];
			return true;
		}
	return length >= 2 && length <= 4 && name[0] == 'r' && find_numbered(name, length, ret);
}

/* "(base,index,scale)", of which all but one register may be missing. */
static bool take_registers(struct cursor *c, struct usdt_argument *ret)
{
	struct register_name r;
	uint64_t scale = 1;

	if (take(c, '%')) {
		if (!take_register(c, &r) || r.bytes != 8)
			return false;
		ret->base = r.number;
	}
	if (take(c, ',')) {
		if (!take(c, '%') || !take_register(c, &r) || r.bytes != 8 ||
		    r.number == USDT_RSP || r.number == USDT_RIP)
			return false;
		if (take(c, ',') && (!take_number(c, &scale) ||
				     (scale != 1 && scale != 2 && scale != 4 && scale != 8)))
			return false;
		ret->index = r.number;
		ret->scale = (uint8_t)scale;
	}
	return take(c, ')') && (ret->base != USDT_NO_REGISTER || ret->index != USDT_NO_REGISTER);
}

static bool take_memory(struct cursor *c, struct usdt_argument *ret)
{
	bool any = peek(c) != '(';

	if (any && !take_sum(c, ret))
		return false;
	if (take(c, '(') ? !take_registers(c, ret) : !any)
		return false;
	ret->kind = ret->symbol ? USDT_SYMBOL : USDT_MEMORY;
	if (ret->base != USDT_RIP)
		return true;
	/* Without a symbol the address would depend on the place that the assembler assumed for the
	 * operand. */
	ret->base = USDT_NO_REGISTER;
	return ret->symbol && ret->index == USDT_NO_REGISTER && ret->segment == USDT_NO_SEGMENT;
}

static bool take_size(struct cursor *c, struct usdt_argument *ret)
{
	bool minus = take(c, '-');
	uint64_t size;

	if (!take_number(c, &size) || (size != 1 && size != 2 && size != 4 && size != 8) ||
	    !take(c, '@'))
		return false;
	ret->size = (int8_t)(minus ? -(int)size : (int)size);
	return true;
}

static int64_t truncate_value(int64_t value, int size)
{
	switch (size) {
	case 1:
		return (uint8_t)value;
	case 2:
		return (uint16_t)value;
	case 4:
		return (uint32_t)value;
	case -1:
		return (int8_t)value;
	case -2:
		return (int16_t)value;
	case -4:
		return (int32_t)value;
	default:
		return value;
	}
}

static bool take_operand(struct cursor *c, struct usdt_argument *ret)
{
	struct register_name r;

	if (take(c, '$')) {
		ret->kind = USDT_CONSTANT;
		if (!take_sum(c, ret) || ret->symbol)
			return false;
		ret->value = truncate_value(ret->value, ret->size);
		return true;
	}
	if (!take(c, '%'))
		return take_memory(c, ret);
	if (c->end - c->at >= 3 && (!memcmp(c->at, "fs:", 3) || !memcmp(c->at, "gs:", 3))) {
		ret->segment = *c->at == 'f' ? USDT_FS : USDT_GS;
		c->at += 3;
		return take_memory(c, ret);
	}
	if (!take_register(c, &r))
		return false;
	ret->kind = USDT_REGISTER;
	ret->base = r.number;
	ret->shift = r.shift;
	return true;
}

unsigned usdt_arguments_parse(const char *text, struct usdt_argument ret[USDT_ARGUMENTS_MAX])
{
	unsigned n = 0;

	for (;;) {
		struct usdt_argument argument = { .base = USDT_NO_REGISTER,
						  .index = USDT_NO_REGISTER };
		struct cursor c;

		text += strspn(text, " \t");
		if (!*text || n == USDT_ARGUMENTS_MAX)
			return n;
		c = (struct cursor){ .at = text, .end = text + strcspn(text, " \t") };
		text = c.end;
		if (!take_size(&c, &argument) || !take_operand(&c, &argument) || c.at != c.end)
			argument = (struct usdt_argument){ .base = USDT_NO_REGISTER,
							   .index = USDT_NO_REGISTER };
		ret[n++] = argument;
	}
}
