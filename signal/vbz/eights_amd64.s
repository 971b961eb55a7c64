#include "textflag.h"

// func decodeEightsSSSE3(dst *int16, keys *byte, nk int, data *byte, nd int) (eights, used int)
TEXT ·decodeEightsSSSE3(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ keys+8(FP), SI
	MOVQ nk+16(FP), R9
	MOVQ data+24(FP), R8
	MOVQ nd+32(FP), R10
	ADDQ SI, R9              // where the keys end
	LEAQ -16(R8)(R10*1), R10 // the last place that 16 bytes can be loaded from
	LEAQ ·spreads(SB), BX

	// X4: the sample before, in all lanes. X5: the shuffle that copies the last
	// lane to all.
	PXOR   X4, X4
	MOVL   $0x0f0e0f0e, AX
	MOVQ   AX, X5
	PSHUFL $0, X5, X5

loop:
	CMPQ    SI, R9
	JGE     done
	CMPQ    R8, R10
	JGT     done
	MOVBLZX (SI), AX
	INCQ    SI

	// Eight samples, each in a lane. They took eight bytes and one for each key bit.
	MOVOU   (R8), X0
	MOVL    AX, CX
	SHLL    $4, CX
	MOVOU   (BX)(CX*1), X1
	PSHUFB  X1, X0
	POPCNTL AX, AX
	LEAQ    8(R8)(AX*1), R8

	// Their differences: z>>1 ^ -(z&1).
	MOVO  X0, X1
	PSRLW $1, X0
	PSLLW $15, X1
	PSRAW $15, X1
	PXOR  X1, X0

	// The sums over two lanes, over four, over eight, and with the sample before.
	MOVO   X0, X1
	PSLLO  $2, X1
	PADDW  X1, X0
	MOVO   X0, X1
	PSLLO  $4, X1
	PADDW  X1, X0
	MOVO   X0, X1
	PSLLO  $8, X1
	PADDW  X1, X0
	PADDW  X4, X0
	MOVOU  X0, (DI)
	ADDQ   $16, DI
	MOVO   X0, X4
	PSHUFB X5, X4
	JMP    loop

done:
	SUBQ keys+8(FP), SI
	MOVQ SI, eights+40(FP)
	SUBQ data+24(FP), R8
	MOVQ R8, used+48(FP)
	RET
