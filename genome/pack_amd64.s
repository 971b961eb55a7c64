#include "textflag.h"

// The letters by their codes, for each lane.
DATA packLetters<>+0(SB)/8, $0x47544341
DATA packLetters<>+8(SB)/8, $0
DATA packLetters<>+16(SB)/8, $0x47544341
DATA packLetters<>+24(SB)/8, $0
GLOBL packLetters<>(SB), RODATA|NOPTR, $32

// The lowest byte of each number of 32 bits.
DATA packGather<>+0(SB)/8, $0x808080800c080400
DATA packGather<>+8(SB)/8, $0x8080808080808080
DATA packGather<>+16(SB)/8, $0x808080800c080400
DATA packGather<>+24(SB)/8, $0x8080808080808080
GLOBL packGather<>(SB), RODATA|NOPTR, $32

// func packAVX2(dst *uint64, src *byte, n int) int
TEXT ·packAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	XORQ AX, AX

	// Y10: what a letter has but for its case. Y11: a code. Y12: 1 and 4, Y13: 1 and 16, in turns.
	MOVL $0xdfdfdfdf, DX
	MOVQ DX, X10
	VPBROADCASTD X10, Y10
	MOVL $0x03030303, DX
	MOVQ DX, X11
	VPBROADCASTD X11, Y11
	MOVL $0x04010401, DX
	MOVQ DX, X12
	VPBROADCASTD X12, Y12
	MOVL $0x00100001, DX
	MOVQ DX, X13
	VPBROADCASTD X13, Y13
	VMOVDQU packLetters<>(SB), Y14
	VMOVDQU packGather<>(SB), Y15

words:
	CMPQ AX, CX
	JGE  done
	VMOVDQU (SI), Y0

	// Y2: the codes. All letters must be those of their codes.
	VPSRLW $1, Y0, Y2
	VPAND  Y11, Y2, Y2
	VPAND  Y10, Y0, Y0
	VPSHUFB Y2, Y14, Y3
	VPCMPEQB Y0, Y3, Y3
	VPMOVMSKB Y3, DX
	CMPL DX, $-1
	JNE  done

	// Two codes, four, and the eight bytes of four each.
	VPMADDUBSW Y12, Y2, Y2
	VPMADDWD Y13, Y2, Y2
	VPSHUFB Y15, Y2, Y2
	VEXTRACTI128 $1, Y2, X3
	VPUNPCKLDQ X3, X2, X2
	VMOVQ X2, (DI)
	ADDQ $32, SI
	ADDQ $8, DI
	INCQ AX
	JMP  words

done:
	VZEROUPPER
	MOVQ AX, ret+24(FP)
	RET
