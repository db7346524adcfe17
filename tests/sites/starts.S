/* SPDX-License-Identifier: Apache-2.0 */
/* For the bench: functions of two integers that begin as compilers' functions do. */
.macro start name
	.p2align 6
	.globl \name
	.type \name, @function
\name:
.endm
.macro finish name
	ret
	.size \name, .-\name
.endm

	.text
	start start_endbr64
	endbr64
	push %rbx
	mov %rdi, %rbx
	lea (%rbx,%rsi), %rax
	pop %rbx
	finish start_endbr64

	start start_mov
	mov %rdi, %rax
	push %rbx
	mov %rsi, %rbx
	add %rbx, %rax
	pop %rbx
	finish start_mov

	.type twice, @function
twice:
	lea (%rdi,%rdi), %rax
	ret
	.size twice, .-twice

	start start_sub
	sub $24, %rsp
	call twice
	add $24, %rsp
	finish start_sub

	start start_lea
	lea (%rdi,%rsi,2), %rax
	test %rdi, %rdi
	je 1f
	add $1, %rax
1:
	finish start_lea

	start start_push
	push %rbp
	mov %rsp, %rbp
	lea (%rdi,%rsi), %rax
	pop %rbp
	finish start_push

	start start_nop
	nop
	lea (%rdi,%rsi), %rax
	finish start_nop

	.section .note.GNU-stack, "", @progbits
