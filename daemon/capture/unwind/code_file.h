/* SPDX-License-Identifier: Apache-2.0 */
/* A file with code, and those of its unwind rows that were asked for. */
#pragma once

#include "daemon/capture/unwind/walk.h"
#include "daemon/discovery/target_file.h"

struct code_file;

/* The file of a mapping of the process. -ENOMEM. */
int code_file_new(pid_t pid, const struct target_file *file, struct code_file **ret);
struct code_file *code_file_free(struct code_file *f, struct proxy *proxy);
bool code_file_is(const struct code_file *f, uint64_t device, uint64_t inode);
/* A process that maps it, and where: the one that had it may have ended. */
void code_file_set_process(struct code_file *f, pid_t pid, const struct target_file *file);
bool code_file_lacks_process(const struct code_file *f);

/* What is known of the code at an offset; WALK_LATER: it will be asked for. */
enum walk_code code_file_find(struct code_file *f, uint64_t offset, struct unwind_row *ret);

bool code_file_has_questions(const struct code_file *f);
/* Whether a question was sent and not answered yet. */
bool code_file_is_asked(const struct code_file *f);
void code_file_ask(struct code_file *f, struct proxy *proxy);
/* Takes the answer, if it is there. *n_rows: of all files; the file adds its own. */
void code_file_take(struct code_file *f, struct proxy *proxy, uint64_t *n_rows);
