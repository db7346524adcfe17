#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of a library of functions whose prologues differ as much as those of real programs.
usage: generate.py SEED COUNT FILE

Two thirds are C, for the compiler to make of them what it will; the others are written in assembly, with beginnings that
compilers make seldom. A result depends on the arguments, and on the memory behind those that are pointers, alone.
"""
import pathlib
import random
import sys

PREAMBLE = """#include <alloca.h>
#include <stdarg.h>
#include <string.h>

#include "tests/sites/functions.h"

struct pair { uint64_t a, b; };
struct four { uint64_t a, b, c, d; };
typedef uint64_t (*function_of_six)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

__attribute__((visibility("hidden"))) uint64_t volatile global_word = 0x9e3779b97f4a7c15;

__attribute__((noinline)) uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	a = (a ^ b >> 7) * 0x9e3779b97f4a7c15;
	c = (c + d) * 0xc2b2ae3d27d4eb4f ^ a >> 31;
	return (e ^ c) * 31 + f + a + (global_word & 255);
}
__attribute__((noinline, cold)) uint64_t mix_seldom(uint64_t a, uint64_t b)
{
	return mix(a, b, 3, 5, 7, 9);
}
__attribute__((noinline)) uint64_t sum_of(const volatile uint8_t *bytes, uint64_t n)
{
	uint64_t sum = n;

	for (uint64_t i = 0; i < n; i++)
		sum = sum * 33 + bytes[i];
	return sum;
}
__asm__(".text\\n"
	".type add_in_assembly, @function\\n"
	"add_in_assembly:\\n"
	"	lea 9(%rdi,%rax), %rax\\n"
	"	ret\\n");
"""

TYPES = {"l": "uint64_t", "i": "int32_t", "p": "uint64_t *", "s": "uint64_t"}
REGISTERS = ["rdi", "rsi", "rdx", "rcx", "r8", "r9"]


class Function:
    """One in C; what it is about is chosen by kind."""

    def __init__(self, rng, name):
        self.rng, self.name, self.flags = rng, name, []
        self.n = rng.randint(1, 6)
        self.arguments = "".join(rng.choice("lllipp") for _ in range(self.n))

    def value(self, i):
        k = self.rng.randrange(32)
        return {"l": f"a{i}", "s": f"a{i}", "i": f"(uint64_t)(uint32_t)a{i}", "p": f"a{i}[{k}]"}[self.arguments[i]]

    def values(self):
        return [self.value(i) for i in range(self.n)]

    def mixture(self):
        found = self.values()
        self.rng.shuffle(found)
        text = found[0]
        for v in found[1:]:
            text = f"({text} {self.rng.choice('+-^*|')} {v} * {self.rng.randrange(3, 99, 2)})"
        return text

    def six(self):
        found = self.values()
        return ", ".join([*found, *(str(self.rng.randrange(1000)) for _ in range(6 - len(found)))])

    def force(self, i, kind):
        """Makes the argument be of that kind."""
        self.arguments = self.arguments[:i] + kind + self.arguments[i + 1:]

    def body_plain(self):
        return f"return {self.mixture()};"

    def body_leaf(self):
        n = self.rng.randint(2, 14)
        lines = [f"volatile uint64_t t[{n}];"]
        lines += [f"t[{i}] = {self.rng.choice(self.values())} + {i};" for i in range(n)]
        return " ".join(lines) + f" return {' ^ '.join(f't[{i}] * {2 * i + 3}' for i in range(n))};"

    def body_call(self):
        return f"uint64_t r = mix({self.six()}); return r ^ mix({self.six()}) ^ {self.mixture()};"

    def body_call_once(self):
        return f"return mix({self.six()}) + 1;"

    def body_tail_call(self):
        return f"return mix({self.six()});"

    def body_big_frame(self):
        n = self.rng.choice([200, 500, 5000, 9000, 20000])
        return (f"volatile uint8_t t[{n}]; uint64_t v = {self.mixture()}; "
                f"for (int i = 0; i < {n}; i += 97) t[i] = (uint8_t)(v >> (i % 56)); "
                f"uint64_t r = 0; for (int i = 0; i < {n}; i += 97) r = r * 31 + t[i]; return r;")

    def body_alloca(self):
        return (f"uint64_t v = {self.mixture()}; size_t n = 16 + (v & 255); volatile uint8_t *t = alloca(n); "
                "for (size_t i = 0; i < n; i++) t[i] = (uint8_t)(v >> (i & 31)); return sum_of(t, n);")

    def body_aligned(self):
        return (f"_Alignas({self.rng.choice([32, 64, 128])}) volatile uint8_t t[96]; uint64_t v = {self.mixture()}; "
                "for (int i = 0; i < 96; i++) t[i] = (uint8_t)(v >> (i & 31)); return sum_of(t, 96);")

    def body_early(self):
        i = self.rng.randrange(self.n)
        test = {"l": f"!(a{i} & 3)", "i": f"a{i} < 0", "p": f"!a{i} || a{i}[1] & 1"}[self.arguments[i]]
        return f"if ({test}) return {self.rng.randrange(100)}; {self.body_call()}"

    def body_early_tail(self):
        i = self.rng.randrange(self.n)
        return f"if (!a{i}) return 0; return mix({self.six()});"

    def body_seldom(self):
        self.force(0, "l")
        return (f"while (__builtin_expect((a0 & 7) == 7, 0)) a0 = mix_seldom(a0, {self.value(self.n - 1)}) >> 1; "
                f"return {self.mixture()};")

    def body_loop(self):
        self.force(0, "l")
        shift = self.rng.randint(7, 20)
        return f"uint64_t r = {self.value(self.n - 1)}; for (;;) {{ if (!a0) return r; r = r * 5 + a0; a0 >>= {shift}; }}"

    def body_loop_on_parameters(self):
        self.n, self.arguments = 2, "ll"
        return ("for (;;) { if (!(a0 >> 5)) return a1; " f"a1 += a0 ^ {self.rng.randrange(999)}; "
                f"a0 >>= {self.rng.randint(5, 17)}; }}")

    def body_loop_of_calls(self):
        self.force(0, "l")
        return f"for (;;) {{ if (a0 < 99) return {self.mixture()}; a0 = mix({self.six()}) & a0 >> 21; }}"

    def body_switch(self):
        i = self.rng.randrange(self.n)
        cases = " ".join(f"case {k}: return {self.mixture()};" for k in range(self.rng.randint(6, 16)))
        return f"switch ({self.value(i)} & 15) {{ {cases} }} return {self.mixture()};"

    def body_switch_in_loop(self):
        self.n, self.arguments = 2, "ll"
        cases = " ".join(f"case {k}: a1 {self.rng.choice('+^-')}= {self.rng.randrange(999)}; continue;" for k in range(1, 8))
        return ("for (;;) { uint64_t k = a0 & 7; a0 >>= 3; " f"switch (k) {{ case 0: if (!a0) return a1; continue; {cases} }} }}")

    def body_store_first(self):
        self.force(0, "p")
        return f"a0[3] = {self.rng.randrange(999)}; return {self.mixture()} + mix({self.six()});"

    def body_recursion(self):
        self.force(0, "s")
        self.flags.append("FUNCTION_RECURSES")
        arguments = ", ".join([f"a{i}" for i in range(1, self.n)])
        here = f"{self.name}(a0 - 1{', ' if arguments else ''}{arguments})"
        last = self.rng.choice([f"return {here} * 3 + 1;", f"return {here};"])
        return f"if (!a0) return {self.mixture()}; {last}"

    def body_recursion_by_pointer(self):
        self.force(0, "s")
        self.flags.append("FUNCTION_RECURSES_EXACTLY")
        arguments = ", ".join(["a0 - 1", *(f"(uint64_t)a{i}" for i in range(1, self.n)), *["0"] * (6 - self.n)])
        return f"if (!a0) return {self.mixture()}; return pointer_to_{self.name}({arguments}) * 3 + 1;"

    def text(self):
        kind = self.rng.choice([k for k in dir(self) if k.startswith("body_")])
        body = getattr(self, kind)()
        attributes = self.rng.choice(["", "", "", "", "", "__attribute__((force_align_arg_pointer)) ",
                                      f"__attribute__((patchable_function_entry({self.rng.randint(1, 5)}))) "])
        parameters = ", ".join(f"{TYPES[t]} a{i}" for i, t in enumerate(self.arguments))
        before = ""
        if "FUNCTION_RECURSES_EXACTLY" in self.flags:
            before = f"extern function_of_six volatile pointer_to_{self.name};\n"
            after = f"function_of_six volatile pointer_to_{self.name} = (function_of_six)(void *){self.name};\n"
        else:
            after = ""
        return (f"{before}{attributes}__attribute__((noinline)) uint64_t {self.name}({parameters})\n{{\n\t{body}\n}}\n{after}")


class Variadic(Function):
    def text(self):
        self.n = self.rng.randint(2, 6)
        self.arguments = "l" * self.n
        sums = " ".join(f"r = r * 7 + va_arg(list, uint64_t);" for _ in range(self.n - 1))
        return (f"__attribute__((noinline)) uint64_t {self.name}(uint64_t a0, ...)\n{{\n\tva_list list; uint64_t r = a0; "
                f"va_start(list, a0); {sums} va_end(list); return r;\n}}\n")


class Structure(Function):
    """Returns a structure, in registers or through a hidden first argument, which the table shows as one."""

    def text(self):
        self.n = min(self.n, 5)
        self.arguments = self.arguments[:self.n]
        parameters = ", ".join(f"{TYPES[t]} a{i}" for i, t in enumerate(self.arguments))
        if self.rng.random() < 0.4:
            self.flags.append("FUNCTION_RETURNS_PAIR")
            body = f"return (struct pair){{ {self.mixture()}, {self.mixture()} }};"
            return f"__attribute__((noinline)) struct pair {self.name}({parameters})\n{{\n\t{body}\n}}\n"
        call = self.rng.choice([f"mix({self.six()})", self.mixture()])
        body = f"struct four r = {{ {call}, {self.mixture()}, {self.mixture()}, 4 }}; return r;"
        text = f"__attribute__((noinline)) struct four {self.name}({parameters})\n{{\n\t{body}\n}}\n"
        self.arguments = "p" + self.arguments
        self.n += 1
        return text


# Only what the processor knows: the functions run.
HAS_AVX = " avx " in pathlib.Path("/proc/cpuinfo").read_text()
VECTOR = ["vpor %xmm1, %xmm0, %xmm2", "vpcmpeqb %xmm1, %xmm0, %xmm2", "vpshufd $0x1b, %xmm0, %xmm2", "vpsrlq $3, %xmm0, %xmm2",
          "vpsubsb %xmm1, %xmm0, %xmm2", "vxorps %xmm1, %xmm0, %xmm2", "vmovdqu 8(%rdi), %xmm2", "vpaddq %xmm1, %xmm0, %xmm2",
          "vmovdqu global_word(%rip), %xmm2"]

NOPS = {1: "90", 2: "66 90", 3: "0f 1f 00", 4: "0f 1f 40 00", 5: "0f 1f 44 00 00", 6: "66 0f 1f 44 00 00",
        7: "0f 1f 80 00 00 00 00", 8: "0f 1f 84 00 00 00 00 00", 9: "66 0f 1f 84 00 00 00 00 00",
        10: "66 2e 0f 1f 84 00 00 00 00 00"}


def nop(size):
    return ".byte " + ", ".join("0x" + b for b in NOPS[size].split())


class Assembly:
    """A function of six arguments whose result is made of all registers that a function may change."""
    STARTS = ["endbr64", "move", "below", "lea", "push", "nop", "nop5", "test", "load", "exchange", "loop", "hidden_loop",
              "elsewhere", "lock", "vector"]

    def __init__(self, rng, name, start):
        self.rng, self.name, self.start = rng, name, start
        self.flags, self.n, self.arguments = [], 6, "plllll"
        self.depth, self.slots, self.lines = 0, [], []

    def any(self):
        return self.rng.choice([*REGISTERS, "rax", "r10", "r11"])

    def below(self):
        n = self.rng.choice([8, 16, 24, 40, 136, 264, 1032])
        self.depth += n
        return self.rng.choice([f"sub ${n}, %rsp", f"lea -{n}(%rsp), %rsp", f"add $-{n}, %rsp"])

    def store(self):
        k = self.rng.randrange(8, 121, 8)
        self.slots.append(self.depth + k)
        return f"mov %{self.any()}, -{k}(%rsp)"

    def move(self):
        return f"mov %{self.any()}, %{self.rng.choice(['rax', 'r10', 'r11', 'r10', 'r11', self.any()])}"

    def immediate(self):
        self.depth += 8
        return f"push ${self.rng.randrange(100)}"

    def item(self, with_stack=True):
        a, b = self.any(), self.any()
        choices = [lambda: nop(1), lambda: nop(5), lambda: nop(self.rng.choice([2, 3, 4, 6, 7, 8, 9, 10])), self.move, self.move,
                   self.move, lambda: f"lea 5(%{a},%{b},2), %rax", lambda: f"test %{a}, %{b}", lambda: f"cmp $7, %{a}",
                   lambda: "xor %r10d, %r10d", lambda: "mov %edi, %edi", lambda: f"xchg %{a}, %{b}",
                   lambda: f"cmovne %{a}, %{b}", lambda: "mov %esi, %r11d", lambda: "movb $3, %dh", lambda: "movzbl %cl, %ecx",
                   lambda: "mov global_word(%rip), %r11", lambda: "lea global_word(%rip), %r10", lambda: "cqto",
                   lambda: "mov %fs:0x28, %r10", lambda: f"xadd %{a}, %{b}", lambda: f"bswap %{a}", lambda: "pxor %xmm0, %xmm0",
                   lambda: f"rdsspq %{self.rng.choice(['rax', 'r10'])}", lambda: f"add $9, %{a}", lambda: "xorl %eax, %eax",
                   lambda: f"mov %{self.rng.choice(REGISTERS)}, %{self.rng.choice(['r10', 'r11'])}"]
        if with_stack:
            choices += [self.below, self.store, self.store, self.immediate]
        return self.rng.choice(choices)()

    def begin(self):
        """The lines that the start asks for, and whether items may follow."""
        first = {"endbr64": ["endbr64"], "move": [f"mov %{self.rng.choice(REGISTERS)}, %{self.rng.choice(['rax', 'r10', 'r11'])}"],
                 "lea": ["lea 8(%rdi), %rax"], "nop": [nop(1)], "nop5": [nop(5)], "test": ["test %rdi, %rdi"],
                 "load": ["mov 16(%rdi), %rax"], "exchange": [f"xchg %rax, %{self.rng.choice(REGISTERS)}"],
                 "lock": ["lock incq 8(%rdi)"],
                 "vector": [self.rng.choice(VECTOR if HAS_AVX else ["por %xmm1, %xmm2"]), "movq %xmm2, %r11"], "push": [], "loop": [], "hidden_loop": [], "elsewhere": []}
        if self.start == "below":
            return [self.below()]
        if self.start == "lock":
            self.flags.append("FUNCTION_MUST_BE_REFUSED")
        if self.start == "nop5":
            self.flags.append("FUNCTION_MAY_BE_REFUSED")
        return first[self.start]

    def loop(self):
        """Runs some items three times, and jumps back in a way that a planner sees, or does not."""
        before = self.rng.choice([["xor %eax, %eax"], ["endbr64", "xor %eax, %eax"], ["endbr64"], [], [nop(5)]])
        self.lines += before
        if "xor %eax, %eax" not in before or self.rng.random() < 0.2:
            # At the entry the caller has made it 0.
            self.flags.append("FUNCTION_MAY_BE_REFUSED")
        self.lines.append("1:")
        n = self.rng.randint(0, 2)
        self.lines += [self.rng.choice([nop(1), nop(5), "mov %rdi, %r10", "test %rsi, %rsi", "lea 3(%rdx), %r10"])
                       for _ in range(n)]
        if self.rng.random() < 0.4:
            self.lines += ["push %rcx", "pop %r10"]
        if self.start == "hidden_loop":
            self.lines += ["add $1, %eax", "cmp $3, %eax", "jae 2f", "lea 1b(%rip), %r11",
                           self.rng.choice(["jmp *%r11", "notrack jmp *%r11"]), "2:"]
        elif self.start == "elsewhere":
            self.lines += ["add $1, %eax", "cmp $3, %eax", f"jb {self.name}.cold"]
        else:
            self.lines += ["add $1, %eax", "cmp $3, %eax", "jb 1b"]

    def text(self):
        if "loop" in self.start or self.start == "elsewhere":
            self.loop()
        else:
            self.lines += self.begin()
        if self.start != "push":
            self.lines += [self.item() for _ in range(self.rng.choice([0, 1, 2, 3, 5, 8]))]
        pivot = "push" if self.start == "push" else self.rng.choice(["push", "push", "call", "jmp", "jcc", "none"])
        if pivot == "push":
            saved = self.rng.choice(["rbx", "rbp", "r12", "r15"])
            self.lines += [f"push %{saved}", f"mov %rax, %{saved}", f"add $77, %{saved}", f"mov %{saved}, %rax", f"pop %{saved}"]
        elif pivot == "call":
            self.lines += ["call add_in_assembly"]
        elif pivot == "jmp":
            self.lines += ["jmp 3f", "ud2", "3:"]
        elif pivot == "jcc":
            self.lines += ["jne 3f", "add $1, %rax", "3:"]
        for slot in self.slots:
            self.lines.append(f"{self.rng.choice(['add', 'xor'])} {self.depth - slot}(%rsp), %rax")
        if self.depth:
            self.lines.append(f"lea {self.depth}(%rsp), %rsp")
        for i, register in enumerate([*REGISTERS, "r10", "r11"]):
            self.lines += [f"imul ${2 * i + 3}, %{register}, %{register}", f"add %{register}, %rax"]
        self.lines.append("ret")
        lines = [".p2align 4", f".globl {self.name}", f".type {self.name}, @function", f"{self.name}:", *self.lines,
                 f".size {self.name}, .-{self.name}"]
        if self.start == "elsewhere":
            lines += [f"{self.name}.cold:", "jmp 1b"]
        return ("extern void " + self.name + "(void);\n__asm__(\".text\\n\"\n"
                + "".join(f"\t\"{line}\\n\"\n" for line in lines) + ");\n")


def main():
    seed, count, path = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    rng = random.Random(seed)
    parts = [PREAMBLE]
    made = []
    for i in range(count):
        if i % 3 == 2:
            start = Assembly.STARTS[i // 3 % len(Assembly.STARTS)]
            f = Assembly(rng, f"site_{i:04}_{start}", start)
        else:
            f = rng.choice([Function] * 8 + [Variadic, Structure])(rng, f"site_{i:04}")
        parts.append(f.text())
        made.append(f)
    parts.append("const struct function functions[] = {\n")
    for f in made:
        mask = (1 << f.n) - 1
        if rng.random() < 0.3:
            mask &= rng.getrandbits(6)
        parts.append(f'\t{{ "{f.name}", (void (*)(void)){f.name}, "{f.arguments}", {mask}, {" | ".join(f.flags) or 0} }},\n')
    parts.append("\t{ 0 },\n};\n")
    path.write_text("".join(parts))


if __name__ == "__main__":
    main()
