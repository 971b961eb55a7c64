#include "textflag.h"

// func decodeFoursSSSE3(dst *int16, keys *byte, nk int, data *byte, nd int) (fours, used int, fits bool)
TEXT ·decodeFoursSSSE3(SB), NOSPLIT, $0-57
	MOVQ dst+0(FP), DI
	MOVQ keys+8(FP), SI
	MOVQ nk+16(FP), R9
	MOVQ data+24(FP), R8
	MOVQ nd+32(FP), R10
	ADDQ SI, R9              // where the keys end
	LEAQ -16(R8)(R10*1), R10 // the last place that 16 bytes can be loaded from
	LEAQ ·spreads(SB), BX
	LEAQ ·lengths(SB), DX
	PXOR X4, X4              // the sample before, in all lanes
	PXOR X5, X5              // what samples have beyond 16 bits

loop:
	CMPQ    SI, R9
	JGE     done
	CMPQ    R8, R10
	JGT     done
	MOVBLZX (SI), AX
	INCQ    SI

	// Four values, each in a lane.
	MOVOU   (R8), X0
	MOVL    AX, CX
	SHLL    $4, CX
	MOVOU   (BX)(CX*1), X1
	PSHUFB  X1, X0
	MOVBLZX (DX)(AX*1), AX
	ADDQ    AX, R8

	// The differences: z>>1 ^ -(z&1).
	MOVO  X0, X1
	PSRLL $1, X0
	PSLLL $31, X1
	PSRAL $31, X1
	PXOR  X1, X0

	// The sums over two lanes, over four, and with the sample before.
	MOVO   X0, X1
	PSLLO  $4, X1
	PADDL  X1, X0
	MOVO   X0, X1
	PSLLO  $8, X1
	PADDL  X1, X0
	PADDL  X4, X0
	PSHUFL $0xff, X0, X4

	// A sample that fits is its lower half with its sign.
	MOVO     X0, X1
	PSLLL    $16, X1
	PSRAL    $16, X1
	PXOR     X0, X1
	POR      X1, X5
	PACKSSLW X0, X0
	MOVQ     X0, (DI)
	ADDQ     $8, DI
	JMP      loop

done:
	SUBQ     keys+8(FP), SI
	MOVQ     SI, fours+40(FP)
	SUBQ     data+24(FP), R8
	MOVQ     R8, used+48(FP)
	PSHUFL   $0x4e, X5, X1
	POR      X1, X5
	PSHUFL   $0xb1, X5, X1
	POR      X1, X5
	MOVQ     X5, AX
	TESTL    AX, AX
	SETEQ    fits+56(FP)
	RET
