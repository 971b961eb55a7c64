#include "textflag.h"

// func highestAVX2(x *float32, n int) (top float32, finite bool)
TEXT ·highestAVX2(SB), NOSPLIT, $0-21
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	LEAQ (SI)(CX*4), DI

	// Y6: all bits but the sign's. Y7: those of the largest finite number.
	VPCMPEQD Y6, Y6, Y6
	VPSRLD   $1, Y6, Y6
	MOVL     $0x7f7fffff, AX
	MOVQ     AX, X7
	VPBROADCASTD X7, Y7

	// Y0, Y1: the highest of each lane. Y2, Y3: whether one was not finite.
	VMOVUPS (SI), Y0
	VMOVAPS Y0, Y1
	VPXOR   Y2, Y2, Y2
	VPXOR   Y3, Y3, Y3

highest:
	VMOVUPS  (SI), Y4
	VMOVUPS  32(SI), Y5
	VMAXPS   Y4, Y0, Y0
	VMAXPS   Y5, Y1, Y1
	VPAND    Y6, Y4, Y4
	VPAND    Y6, Y5, Y5
	VPCMPGTD Y7, Y4, Y4
	VPCMPGTD Y7, Y5, Y5
	VPOR     Y4, Y2, Y2
	VPOR     Y5, Y3, Y3
	ADDQ     $64, SI
	CMPQ     SI, DI
	JLT      highest

	VPOR       Y3, Y2, Y2
	VPTEST     Y2, Y2
	SETEQ      finite+20(FP)
	VMAXPS     Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VMAXPS     X1, X0, X0
	VPERMILPS  $0x4e, X0, X1
	VMAXPS     X1, X0, X0
	VPERMILPS  $0xb1, X0, X1
	VMAXPS     X1, X0, X0
	VMOVSS     X0, top+16(FP)
	VZEROUPPER
	RET

// func exponentialsAVX2(dst, x *float32, n int, top float32, c *expConstants, ahead int)
TEXT ·exponentialsAVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DX
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ (SI)(CX*4), DI
	MOVQ c+32(FP), R8
	MOVQ ahead+40(FP), R9

	VBROADCASTSS top+24(FP), Y15
	VBROADCASTSS 0(R8), Y14      // the least logarithm
	VBROADCASTSS 4(R8), Y13      // powers/ln2
	VBROADCASTSS 8(R8), Y12      // what rounds
	VBROADCASTSS 12(R8), Y11     // high part of ln2/powers
	VBROADCASTSS 16(R8), Y10     // low part
	VBROADCASTSS 20(R8), Y9      // the polynomial's coefficients
	VBROADCASTSS 24(R8), Y8
	VMOVUPS      32(R8), Y7      // the roots of two
	VPBROADCASTD 28(R8), Y6      // 127

exponential:
	PREFETCHT0 (SI)(R9*1)
	VMOVUPS (SI), Y0
	VSUBPS  Y15, Y0, Y0  // v
	VMAXPS  Y14, Y0, Y0
	VMULPS  Y13, Y0, Y1
	VADDPS  Y12, Y1, Y1  // k
	VSUBPS  Y12, Y1, Y2  // n
	VPSUBD  Y12, Y1, Y1  // n as a whole number
	VMULPS  Y11, Y2, Y3
	VSUBPS  Y3, Y0, Y0
	VMULPS  Y10, Y2, Y2
	VSUBPS  Y2, Y0, Y0   // r
	VPERMPS Y7, Y1, Y2   // the root of two, by the lowest three bits
	VPSRAD  $3, Y1, Y1
	VPADDD  Y6, Y1, Y1
	VPSLLD  $23, Y1, Y1  // the power of two
	VMULPS  Y8, Y0, Y3
	VADDPS  Y9, Y3, Y3
	VMULPS  Y0, Y0, Y4
	VMULPS  Y4, Y3, Y3
	VADDPS  Y3, Y0, Y0
	VMULPS  Y2, Y0, Y0
	VADDPS  Y2, Y0, Y0
	VMULPS  Y1, Y0, Y0
	VMOVUPS Y0, (DX)
	ADDQ    $32, DX
	ADDQ    $32, SI
	CMPQ    SI, DI
	JLT     exponential
	VZEROUPPER
	RET

// func halvesAVX2(dst *float32, x *uint16, n int)
TEXT ·halvesAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ (DI)(CX*4), DX

halves:
	VCVTPH2PS (SI), Y0
	VMOVUPS   Y0, (DI)
	ADDQ      $16, SI
	ADDQ      $32, DI
	CMPQ      DI, DX
	JLT       halves
	VZEROUPPER
	RET

// func highestByteAVX2(x *int8, n int) int8
TEXT ·highestByteAVX2(SB), NOSPLIT, $0-17
	MOVQ x+0(FP), SI
	MOVQ n+8(FP), CX
	LEAQ (SI)(CX*1), DI
	VMOVDQU (SI), X0

highestByte:
	VPMAXSB (SI), X0, X0
	ADDQ    $16, SI
	CMPQ    SI, DI
	JLT     highestByte

	VPSRLDQ $8, X0, X1
	VPMAXSB X1, X0, X0
	VPSRLDQ $4, X0, X1
	VPMAXSB X1, X0, X0
	VPSRLDQ $2, X0, X1
	VPMAXSB X1, X0, X0
	VPSRLDQ $1, X0, X1
	VPMAXSB X1, X0, X0
	VPEXTRB $0, X0, AX
	MOVB    AX, ret+16(FP)
	RET

// func weighBytesAVX2(dst *float32, x *int8, n int, base int32, low, middle, high *[8]float32)
TEXT ·weighBytesAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	MOVL base+24(FP), AX
	MOVQ AX, X15
	VPBROADCASTD X15, Y15
	MOVQ low+32(FP), R8
	MOVQ middle+40(FP), R9
	MOVQ high+48(FP), R10
	VMOVUPS (R8), Y14
	VMOVUPS (R9), Y13
	VMOVUPS (R10), Y12
	LEAQ (SI)(CX*1), DX

weighBytes:
	VPMOVSXBD (SI), Y0
	VPSUBD    Y0, Y15, Y0  // steps below
	VPERMPS   Y14, Y0, Y1  // by the lowest three bits
	VPSRLD    $3, Y0, Y2
	VPERMPS   Y13, Y2, Y2
	VPSRLD    $6, Y0, Y0
	VPERMPS   Y12, Y0, Y0
	VMULPS    Y2, Y0, Y0
	VMULPS    Y1, Y0, Y0
	VMOVUPS   Y0, (DI)
	ADDQ      $8, SI
	ADDQ      $32, DI
	CMPQ      SI, DX
	JLT       weighBytes
	VZEROUPPER
	RET

// TRANSPOSE turns four rows of four numbers into their columns; T0 to T3 are lost.
#define TRANSPOSE(R0, R1, R2, R3, T0, T1, T2, T3) \
	VUNPCKLPS R1, R0, T0 \
	VUNPCKHPS R1, R0, T1 \
	VUNPCKLPS R3, R2, T2 \
	VUNPCKHPS R3, R2, T3 \
	VMOVLHPS  T2, T0, R0 \
	VMOVHLPS  T0, T2, R1 \
	VMOVLHPS  T3, T1, R2 \
	VMOVHLPS  T1, T3, R3

// QUARTERS points R9 to R12 at the four states, a quarter of all apart, that come before
// the first four of SI, and BX behind the last that R9 points at; no highest is in X12 yet.
#define QUARTERS \
	MOVQ   SI, R9             \
	LEAQ   (SI)(CX*4), R10    \
	LEAQ   (SI)(CX*8), R11    \
	LEAQ   (R10)(CX*8), R12   \
	LEAQ   (R9)(CX*4), BX     \
	VXORPS X12, X12, X12

// NEXT goes on by four states of each quarter, the sixteen that come after them and the
// moves there, and compares with the end.
#define NEXT \
	ADDQ $64, SI  \
	ADDQ $256, R8 \
	ADDQ $16, R9  \
	ADDQ $16, R10 \
	ADDQ $16, R11 \
	ADDQ $16, R12 \
	CMPQ R9, BX

// HIGHEST leaves the highest of the four numbers of X12 in each of them.
#define HIGHEST \
	VPERMILPS $0x4e, X12, X4  \
	VMAXPS    X4, X12, X12    \
	VPERMILPS $0xb1, X12, X4  \
	VMAXPS    X4, X12, X12

// STEP computes the sums of the four states that come after those of A. X12: the
// highest. X13: scale. X14: stay. X15: tiny.
#define STEP(A, offset) \
	VMULPS  (4*offset+0)(R8), A, X4  \
	VMULPS  (4*offset+16)(R8), A, X5 \
	VMULPS  (4*offset+32)(R8), A, X6 \
	VMULPS  (4*offset+48)(R8), A, X7 \
	VHADDPS X5, X4, X4               \
	VHADDPS X7, X6, X6               \
	VSHUFPS $0x88, X6, X4, X5        \
	VSHUFPS $0xdd, X6, X4, X7        \
	VMULPS  offset(SI), X13, X4      \
	VMULPS  X14, X4, X4              \
	VADDPS  X5, X4, X4               \
	VADDPS  X7, X4, X4               \
	VADDPS  X15, X4, X4              \
	VMAXPS  X4, X12, X12             \
	VMOVUPS X4, offset(DI)

// func stepAVX2(before, after, moves *float32, q int, stay, scale, tiny float32) float32
TEXT ·stepAVX2(SB), NOSPLIT, $0-52
	MOVQ before+0(FP), SI
	MOVQ after+8(FP), DI
	MOVQ moves+16(FP), R8
	MOVQ q+24(FP), CX
	VBROADCASTSS stay+32(FP), X14
	VBROADCASTSS scale+36(FP), X13
	VBROADCASTSS tiny+40(FP), X15

	QUARTERS

step:
	VMULPS (R9), X13, X0
	VMULPS (R10), X13, X1
	VMULPS (R11), X13, X2
	VMULPS (R12), X13, X3
	TRANSPOSE(X0, X1, X2, X3, X4, X5, X6, X7)
	STEP(X0, 0)
	STEP(X1, 16)
	STEP(X2, 32)
	STEP(X3, 48)
	ADDQ $64, DI
	NEXT
	JLT  step

	HIGHEST
	VMOVSS  X12, ret+48(FP)
	VZEROUPPER
	RET

// BACK adds to B what the moves to the four states at offset give those before them.
#define BACK(B, offset) \
	VMULPS    offset(SI), X13, X4        \
	VPERMILPS $0x00, X4, X5              \
	VPERMILPS $0x55, X4, X6              \
	VPERMILPS $0xaa, X4, X7              \
	VPERMILPS $0xff, X4, X8              \
	VMULPS    (4*offset+0)(R8), X5, X5   \
	VMULPS    (4*offset+16)(R8), X6, X6  \
	VMULPS    (4*offset+32)(R8), X7, X7  \
	VMULPS    (4*offset+48)(R8), X8, X8  \
	VADDPS    X6, X5, X5                 \
	VADDPS    X8, X7, X7                 \
	VADDPS    X5, B, B                   \
	VADDPS    X7, B, B                   \
	VMAXPS    B, X12, X12

// STAY computes what staying gives.
#define STAY(at, B) \
	VMULPS (at), X13, B \
	VMULPS X14, B, B    \
	VADDPS X15, B, B

// func stepBackAVX2(after, before, moves *float32, q int, stay, scale, tiny float32) float32
TEXT ·stepBackAVX2(SB), NOSPLIT, $0-52
	MOVQ after+0(FP), SI
	MOVQ before+8(FP), DI
	MOVQ moves+16(FP), R8
	MOVQ q+24(FP), CX
	VBROADCASTSS stay+32(FP), X14
	VBROADCASTSS scale+36(FP), X13
	VBROADCASTSS tiny+40(FP), X15

	QUARTERS

	// What R9 to R12 point at is in the result by DX further on.
	MOVQ DI, DX
	SUBQ SI, DX

back:
	STAY(R9, X0)
	STAY(R10, X1)
	STAY(R11, X2)
	STAY(R12, X3)
	TRANSPOSE(X0, X1, X2, X3, X4, X5, X6, X7)
	BACK(X0, 0)
	BACK(X1, 16)
	BACK(X2, 32)
	BACK(X3, 48)
	TRANSPOSE(X0, X1, X2, X3, X4, X5, X6, X7)
	VMOVUPS X0, (R9)(DX*1)
	VMOVUPS X1, (R10)(DX*1)
	VMOVUPS X2, (R11)(DX*1)
	VMOVUPS X3, (R12)(DX*1)
	NEXT
	JLT  back

	HIGHEST
	VMOVSS  X12, ret+48(FP)
	VZEROUPPER
	RET

// BLOCKS adds to SUMS the products of 32 numbers at offset, added up by blocks of four: those of the
// blocks 0, 2, 4, 6, 1, 3, 5 and 7.
#define BLOCKS(SUMS, offset) \
	VMOVUPS (offset+0)(SI), Y0       \
	VMOVUPS (offset+32)(SI), Y1      \
	VMOVUPS (offset+64)(SI), Y2      \
	VMOVUPS (offset+96)(SI), Y3      \
	VMULPS  (offset+0)(DI), Y0, Y0   \
	VMULPS  (offset+32)(DI), Y1, Y1  \
	VMULPS  (offset+64)(DI), Y2, Y2  \
	VMULPS  (offset+96)(DI), Y3, Y3  \
	VHADDPS Y1, Y0, Y0               \
	VHADDPS Y3, Y2, Y2               \
	VHADDPS Y2, Y0, Y0               \
	VADDPS  Y0, SUMS, SUMS

// func dotAVX2(x, y *float32, n int) float32
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ   x+0(FP), SI
	MOVQ   y+8(FP), DI
	MOVQ   n+16(FP), CX
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11

dot:
	CMPQ CX, $128
	JLT  rest
	BLOCKS(Y8, 0)
	BLOCKS(Y9, 128)
	BLOCKS(Y10, 256)
	BLOCKS(Y11, 384)
	ADDQ $512, SI
	ADDQ $512, DI
	SUBQ $128, CX
	JMP  dot

rest:
	TESTQ CX, CX
	JZ    halves32
	BLOCKS(Y8, 0)
	BLOCKS(Y9, 128)

halves32: // of 32 sums, of 16, and so on
	VADDPS       Y10, Y8, Y8
	VADDPS       Y11, Y9, Y9
	VADDPS       Y9, Y8, Y8
	VPERMILPS    $0x4e, Y8, Y9
	VADDPS       Y9, Y8, Y8
	VPERMILPS    $0xb1, Y8, Y9
	VADDPS       Y9, Y8, Y8
	VEXTRACTF128 $1, Y8, X9
	VADDPS       X9, X8, X8
	VMOVSS       X8, ret+24(FP)
	VZEROUPPER
	RET

// func withinAVX2(kept *uint32, values, x *float32, n int, cut float32, lanes *[256][8]uint8) (top float32, count int)
TEXT ·withinAVX2(SB), NOSPLIT, $0-64
	MOVQ kept+0(FP), DI
	MOVQ values+8(FP), SI
	MOVQ x+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ lanes+40(FP), R8

	LEAQ    (DX)(CX*4), R9
	MOVQ    DX, R10
	VMOVUPS (DX), Y0

top:
	VMAXPS (R10), Y0, Y0
	ADDQ   $32, R10
	CMPQ   R10, R9
	JLT    top

	VEXTRACTF128 $1, Y0, X1
	VMAXPS       X1, X0, X0
	VPERMILPS    $0x4e, X0, X1
	VMAXPS       X1, X0, X0
	VPERMILPS    $0xb1, X0, X1
	VMAXPS       X1, X0, X0
	VMOVSS       X0, top+48(FP)

	VMOVSS   cut+32(FP), X1
	VXORPS   X15, X15, X15
	VUCOMISS X15, X1
	JEQ      all
	VDIVSS   X1, X0, X15

all:
	VBROADCASTSS X15, Y15   // the least that is kept
	VPXOR        Y14, Y14, Y14
	VPCMPEQD     Y13, Y13, Y13
	VPSRLD       $31, Y13, Y13
	VPSLLD       $3, Y13, Y13 // 8
	XORQ         BX, BX

within:
	VMOVUPS   (DX), Y0
	VCMPPS    $0x1d, Y15, Y0, Y1 // at least
	VMOVMSKPS Y1, AX
	VPMOVZXBD (R8)(AX*8), Y2
	VPERMPS   Y0, Y2, Y3
	VPADDD    Y14, Y2, Y2
	VMOVDQU   Y2, (DI)(BX*4)
	VMOVUPS   Y3, (SI)(BX*4)
	POPCNTL   AX, AX
	ADDQ      AX, BX
	VPADDD    Y13, Y14, Y14
	ADDQ      $32, DX
	CMPQ      DX, R9
	JLT       within

	MOVQ BX, count+56(FP)
	VZEROUPPER
	RET

// func bestAVX2(best, kept *uint32, values *float32, n, width int, lanes *[256][8]uint8) int
TEXT ·bestAVX2(SB), NOSPLIT, $0-56
	MOVQ best+0(FP), DI
	MOVQ kept+8(FP), DX
	MOVQ values+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ lanes+40(FP), R8
	VPBROADCASTD width+32(FP), Y15
	XORQ BX, BX
	LEAQ (SI)(CX*4), R9  // behind the last value
	MOVQ SI, R10

eight:
	VMOVUPS (R10), Y0
	VPXOR   Y1, Y1, Y1 // how many are greater
	VPXOR   Y2, Y2, Y2
	MOVQ    SI, R11

greater:
	VBROADCASTSS (R11), Y3
	VBROADCASTSS 4(R11), Y4
	VCMPPS       $0x1e, Y0, Y3, Y3
	VCMPPS       $0x1e, Y0, Y4, Y4
	VPSUBD       Y3, Y1, Y1
	VPSUBD       Y4, Y2, Y2
	ADDQ         $8, R11
	CMPQ         R11, R9
	JLT          greater

	VPADDD    Y2, Y1, Y1
	VPCMPGTD  Y1, Y15, Y1
	VMOVMSKPS Y1, AX
	VPMOVZXBD (R8)(AX*8), Y2
	VMOVDQU   (DX), Y3
	VPERMD    Y3, Y2, Y3
	VMOVDQU   Y3, (DI)(BX*4)
	POPCNTL   AX, AX
	ADDQ      AX, BX
	ADDQ      $32, DX
	ADDQ      $32, R10
	CMPQ      R10, R9
	JLT       eight

	MOVQ BX, ret+48(FP)
	VZEROUPPER
	RET
