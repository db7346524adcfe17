/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted text for terminals and logs: it can neither control a terminal nor begin a new line. */
#pragma once

#include <stddef.h>

/* Enough for one character or its escape, with its NUL. */
#define ESCAPE_SIZE 16

/*
 * Moves *text, which is not empty, past its first character, and sets piece to that character, or
 * to \xNN or \u{NNNN} if it is a control character, a mark that changes the direction of writing,
 * or a byte that is not UTF-8. Returns the number of columns of the piece.
 */
size_t escape_next(const char **text, char piece[static ESCAPE_SIZE]);
/* Replaces all but printable ASCII characters by question marks: for texts of a fixed size. */
void escape_overwrite(char *text);
/* Writes as much of the escaped text as size bytes have room for, with a NUL; no escape is
 * truncated. Returns the length. */
size_t escape_text(const char *text, char *to, size_t size);
