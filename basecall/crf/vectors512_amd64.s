#include "textflag.h"
#include "go_asm.h"

// ALL leaves in each of 16 numbers what OP makes of all of them; T is lost.
#define ALL(OP, Z, T) \
	VSHUFF32X4 $0x4e, Z, Z, T \
	OP         T, Z, Z        \
	VSHUFF32X4 $0xb1, Z, Z, T \
	OP         T, Z, Z        \
	VPERMILPS  $0x4e, Z, T    \
	OP         T, Z, Z        \
	VPERMILPS  $0xb1, Z, T    \
	OP         T, Z, Z

// EXPONENTIAL leaves in V the exponentials of its numbers less TOP; T1 to T3 and Z15 are lost. Z16 to Z24 are constants. The product
// that is taken away at once is exact, and so is what the power of two is multiplied by, the root instead of the result: nothing is
// rounded otherwise than in Go.
#define EXPONENTIAL(V, TOP, T1, T2, T3) \
	VSUBPS       TOP, V, V      \
	VMAXPS       Z16, V, V      \
	VMULPS       Z17, V, T1     \
	VADDPS       Z18, T1, T1    \
	VSUBPS       Z18, T1, T2    \
	VPERMD       Z24, T1, Z15   \
	VPSLLD       $20, T1, T1    \
	VPADDD       Z15, T1, T1    \
	VFNMADD231PS Z19, T2, V     \
	VMULPS       Z20, T2, T3    \
	VSUBPS       T3, V, V       \
	VMULPS       Z22, V, T3     \
	VADDPS       Z21, T3, T3    \
	VMULPS       V, V, Z15      \
	VMULPS       Z15, T3, T3    \
	VADDPS       T3, V, V       \
	VMULPS       T1, V, V       \
	VADDPS       T1, V, V

// func weighAVX512(dst, x *float32, n int, stay float32, c *expConstants, ahead int) (top, weight float32, finite bool)
TEXT ·weighAVX512(SB), NOSPLIT, $0-57
	MOVQ dst+0(FP), DX
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	LEAQ (SI)(CX*4), DI
	MOVQ c+32(FP), R8
	MOVQ ahead+40(FP), R9

	VMOVUPS (SI), Z0
	VMOVAPS Z0, Z1
	VPXORD  Z2, Z2, Z2 // 0
	VPXORD  Z3, Z3, Z3 // not a number if one isn't, or isn't finite
	VPXORD  Z4, Z4, Z4
	MOVQ    SI, R10

highest:
	PREFETCHT0  (R10)(R9*1)
	PREFETCHT0  64(R10)(R9*1)
	VMOVUPS     (R10), Z5
	VMOVUPS     64(R10), Z6
	VMAXPS      Z5, Z0, Z0
	VMAXPS      Z6, Z1, Z1
	VFMADD231PS Z5, Z2, Z3
	VFMADD231PS Z6, Z2, Z4
	ADDQ        $128, R10
	CMPQ        R10, DI
	JLT         highest

	VADDPS   Z4, Z3, Z3
	VCMPPS   $3, Z3, Z3, K1 // unordered
	KORTESTW K1, K1
	SETEQ    finite+56(FP)
	JNE      over
	VMAXPS   Z1, Z0, Z0
	ALL(VMAXPS, Z0, Z1)
	VBROADCASTSS stay+24(FP), Z14
	VMAXPS       Z14, Z0, Z0
	VMOVSS       X0, top+48(FP)
	VMOVAPS      Z0, Z13

	VBROADCASTSS   0(R8), Z16      // the least logarithm
	VBROADCASTSS   4(R8), Z17      // powers/ln2
	VBROADCASTSS   8(R8), Z18      // what rounds
	VBROADCASTSS   12(R8), Z19     // high part of ln2/powers
	VBROADCASTSS   16(R8), Z20     // low part
	VBROADCASTSS   20(R8), Z21     // the polynomial's coefficients
	VBROADCASTSS   24(R8), Z22
	VBROADCASTF64X4 64(R8), Z24    // the roots' bits that the exponent is added to (shifted), twice

	EXPONENTIAL(Z14, Z13, Z1, Z2, Z3)
	VMOVSS X14, weight+52(FP)

exponential:
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z4
	EXPONENTIAL(Z0, Z13, Z1, Z2, Z3)
	EXPONENTIAL(Z4, Z13, Z5, Z6, Z7)
	VMOVUPS Z0, (DX)
	VMOVUPS Z4, 64(DX)
	ADDQ    $128, DX
	ADDQ    $128, SI
	CMPQ    SI, DI
	JLT     exponential

over:
	VZEROUPPER
	RET

// TRANSPOSE turns, in each quarter of four registers, four rows of four numbers into their columns; T0 to T3 are lost.
#define TRANSPOSE(R0, R1, R2, R3, T0, T1, T2, T3) \
	VUNPCKLPS R1, R0, T0 \
	VUNPCKHPS R1, R0, T1 \
	VUNPCKLPS R3, R2, T2 \
	VUNPCKHPS R3, R2, T3 \
	VUNPCKLPD T2, T0, R0 \
	VUNPCKHPD T2, T0, R1 \
	VUNPCKLPD T3, T1, R2 \
	VUNPCKHPD T3, T1, R3

// PAIRS adds up pairs of what SHUFFLE takes four of, in each of four registers: P0 becomes the sums of the first pairs
// and P1 those of the second.
#define PAIRS(SHUFFLE, P0, P1, P2, P3, T0, T1) \
	SHUFFLE $0x88, P1, P0, T0 \
	SHUFFLE $0xdd, P1, P0, T1 \
	VADDPS  T1, T0, T0        \
	SHUFFLE $0x88, P3, P2, P0 \
	SHUFFLE $0xdd, P3, P2, P1 \
	VADDPS  P1, P0, T1        \
	SHUFFLE $0x88, T1, T0, P0 \
	SHUFFLE $0xdd, T1, T0, P1

// MOVED leaves in P what the moves to the block of four states that I takes from X give those before them.
#define MOVED(X, I, offset, P) \
	VPERMPS X, I, P         \
	VMULPS  offset(R8), P, P

// BACK leaves in R and S what the moves to the first two and to the last two states of every fourth block, from I's on, give those
// before them: a quarter for each block, in which there is a number for each of the four bases that are dropped.
#define BACK(I, offset, R, S) \
	MOVED(Z0, I, (offset+0), Z4)   \
	MOVED(Z1, I, (offset+256), Z5) \
	MOVED(Z2, I, (offset+512), Z6) \
	MOVED(Z3, I, (offset+768), Z7) \
	PAIRS(VSHUFF32X4, Z4, Z5, Z6, Z7, Z8, Z9) \
	VMOVAPS Z4, R                  \
	VMOVAPS Z5, S

// STAYED adds to what staying gives R and S, writes it, and compares.
#define STAYED(from, to, R, S) \
	VMULPS  from, Z29, Z4 \
	VMULPS  Z30, Z4, Z4   \
	VADDPS  Z31, Z4, Z4   \
	VADDPS  R, Z4, Z4     \
	VADDPS  S, Z4, Z4     \
	VMAXPS  Z4, Z28, Z28  \
	VMOVUPS Z4, to

// func stepBackAVX512(after, before, moves *float32, q int, stay, scale, tiny float32, order *[5][16]uint32) float32
TEXT ·stepBackAVX512(SB), NOSPLIT, $0-60
	MOVQ after+0(FP), SI
	MOVQ before+8(FP), DI
	MOVQ moves+16(FP), R8
	MOVQ q+24(FP), CX
	MOVQ order+48(FP), R9
	VBROADCASTSS stay+32(FP), Z30
	VBROADCASTSS scale+36(FP), Z29
	VBROADCASTSS tiny+40(FP), Z31
	VPXORD       Z28, Z28, Z28
	VMOVDQU32    0(R9), Z20
	VMOVDQU32    64(R9), Z21
	VMOVDQU32    128(R9), Z22
	VMOVDQU32    192(R9), Z23

	MOVQ SI, R10            // those that come after
	LEAQ (SI)(CX*4), R11    // behind the first quarter
	LEAQ (CX)(CX*2), R12    // three quarters

back:
	VMULPS (R10), Z29, Z0
	VMULPS 64(R10), Z29, Z1
	VMULPS 128(R10), Z29, Z2
	VMULPS 192(R10), Z29, Z3
	BACK(Z20, 0, Z16, Z10)
	BACK(Z21, 64, Z17, Z11)
	BACK(Z22, 128, Z18, Z12)
	BACK(Z23, 192, Z19, Z13)
	TRANSPOSE(Z16, Z17, Z18, Z19, Z4, Z5, Z6, Z7)
	TRANSPOSE(Z10, Z11, Z12, Z13, Z4, Z5, Z6, Z7)
	STAYED((SI), (DI), Z16, Z10)
	STAYED((SI)(CX*4), (DI)(CX*4), Z17, Z11)
	STAYED((SI)(CX*8), (DI)(CX*8), Z18, Z12)
	STAYED((SI)(R12*4), (DI)(R12*4), Z19, Z13)
	ADDQ $1024, R8
	ADDQ $256, R10
	ADDQ $64, DI
	ADDQ $64, SI
	CMPQ SI, R11
	JLT  back

	ALL(VMAXPS, Z28, Z4)
	VMOVSS X28, ret+56(FP)
	VZEROUPPER
	RET

// TO leaves in P the weights of the moves to a block of four states, by the base dropped, from the quarter of FROM that
// comes before it.
#define TO(FROM, quarter, offset, P) \
	VSHUFF32X4 quarter, FROM, FROM, P \
	VMULPS     offset(R8), P, P

// STEP computes the sums of the 16 states of four blocks and what they add to those of the scalar product.
#define STEP(quarter, block, states, PRODUCT) \
	TO(Z0, quarter, (block+0), Z4)   \
	TO(Z1, quarter, (block+64), Z5)  \
	TO(Z2, quarter, (block+128), Z6) \
	TO(Z3, quarter, (block+192), Z7) \
	PAIRS(VSHUFPS, Z4, Z5, Z6, Z7, Z8, Z9) \
	VPERMPS Z4, Z20, Z4           \
	VPERMPS Z5, Z20, Z5           \
	VMULPS  states(R10), Z29, Z6  \
	VMULPS  Z30, Z6, Z6           \
	VADDPS  Z4, Z6, Z6            \
	VADDPS  Z5, Z6, Z6            \
	VADDPS  Z31, Z6, Z6           \
	VMAXPS  Z6, Z28, Z28          \
	VMOVUPS Z6, states(DI)        \
	VMULPS  states(DX), Z6, PRODUCT

// func stepAVX512(before, after, moves, backward *float32, q int, stay, scale, tiny float32, order *[5][16]uint32) (highest, total float32)
TEXT ·stepAVX512(SB), NOSPLIT, $0-72
	MOVQ before+0(FP), SI
	MOVQ after+8(FP), DI
	MOVQ moves+16(FP), R8
	MOVQ backward+24(FP), DX
	MOVQ q+32(FP), CX
	MOVQ order+56(FP), R9
	VBROADCASTSS stay+40(FP), Z30
	VBROADCASTSS scale+44(FP), Z29
	VBROADCASTSS tiny+48(FP), Z31
	VPXORD       Z28, Z28, Z28
	VPXORD       Z26, Z26, Z26 // the product's sums, of two times 16 blocks in turns
	VPXORD       Z27, Z27, Z27
	VMOVDQU32    256(R9), Z20

	MOVQ SI, R10            // those that stay
	LEAQ (SI)(CX*4), R11    // behind the first quarter
	LEAQ (CX)(CX*2), R12    // three quarters

step:
	VMULPS (SI), Z29, Z0
	VMULPS (SI)(CX*4), Z29, Z1
	VMULPS (SI)(CX*8), Z29, Z2
	VMULPS (SI)(R12*4), Z29, Z3
	TRANSPOSE(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7)
	STEP($0x00, 0, 0, Z16)
	STEP($0x55, 256, 64, Z17)
	STEP($0xaa, 512, 128, Z18)
	STEP($0xff, 768, 192, Z19)
	PAIRS(VSHUFPS, Z16, Z17, Z18, Z19, Z8, Z9)
	VADDPS  Z17, Z16, Z16
	VADDPS  Z16, Z26, Z16
	VMOVAPS Z27, Z26
	VMOVAPS Z16, Z27
	ADDQ $1024, R8
	ADDQ $256, R10
	ADDQ $256, DI
	ADDQ $256, DX
	ADDQ $64, SI
	CMPQ SI, R11
	JLT  step

	ALL(VMAXPS, Z28, Z4)
	VMOVSS X28, highest+64(FP)
	// Of 32 sums, of 16, and so on. Blocks that are eight and four apart lie in one quarter.
	VADDPS     Z27, Z26, Z26
	VPERMILPS  $0x4e, Z26, Z4
	VADDPS     Z4, Z26, Z26
	VPERMILPS  $0xb1, Z26, Z4
	VADDPS     Z4, Z26, Z26
	VSHUFF32X4 $0x4e, Z26, Z26, Z4
	VADDPS     Z4, Z26, Z26
	VSHUFF32X4 $0xb1, Z26, Z26, Z4
	VADDPS     Z4, Z26, Z26
	VMOVSS     X26, total+68(FP)
	VZEROUPPER
	RET

// ENTRY takes what the moves of one of four entries weigh to those numbers of M that MASK names, and the sums of what follows
// them to those of A. Z8 is lost, and AX becomes the entry's state.
#define ENTRY(offset, MASK, M, A) \
	MOVL             (narrow_state+4*offset)(DI), AX \
	SHRXQ            R9, AX, BX           \
	LEAQ             (AX*4), R12          \
	ANDQ             R8, R12              \
	SHLQ             $6, BX               \
	VMOVDQU32        laneConstants_dropped(R10)(BX*1), Z8    \
	MOVQ             R12, R13             \
	SHLQ             $4, R13              \
	VPERMPS          (SI)(R13*1), Z8, MASK, M \
	VBROADCASTF32X4  (DX)(R12*4), MASK, A

// FOUR is ENTRY for four, with what follows those of them that stay in F.
#define FOUR(offset, M, A, F, order) \
	ENTRY((offset+0), K4, M, A)  \
	VMOVSS    (DX)(AX*4), F      \
	ENTRY((offset+1), K1, M, A)  \
	VINSERTPS $0x10, (DX)(AX*4), F, F \
	ENTRY((offset+2), K2, M, A)  \
	VINSERTPS $0x20, (DX)(AX*4), F, F \
	ENTRY((offset+3), K3, M, A) \
	VINSERTPS $0x30, (DX)(AX*4), F, F \
	VMOVDQU32 (laneConstants_spread+64*order)(R10), Z8     \
	VPERMPS   Z6, Z8, Z8         \
	VMULPS    Z8, M, M           \
	VMULPS    A, M, A

// CHILDREN notes in Z2 an entry for those whose parents it is. Z0 and Z1 are the parents' hashes.
#define CHILDREN(entry) \
	VPCMPEQQ.BCST (narrow_hash+8*entry)(DI), Z0, K4 \
	VPCMPEQQ.BCST (narrow_hash+8*entry)(DI), Z1, K5 \
	KUNPCKBW      K4, K5, K4            \
	VPBROADCASTD  (laneConstants_count+4*entry)(R10), K4, Z2

// COMPRESSED writes those of the guided weights G whose bits are the lowest of R13 behind those written before, up to R11.
#define COMPRESSED(G) \
	KMOVW          R13, K4         \
	VCOMPRESSPS.Z  G, K4, Z8       \
	VMOVUPS        Z8, (R11)       \
	MOVWLZX        R13, AX         \
	POPCNTL        AX, AX          \
	LEAQ           (R11)(AX*4), R11 \
	SHRQ           $16, R13

// func advanceAVX512(l *narrow, moves, after *float32, mask, oldest, width int, cut, stay float32, row *origin, c *laneConstants) bool
TEXT ·advanceAVX512(SB), NOSPLIT, $0-73
	MOVQ l+0(FP), DI
	MOVQ moves+8(FP), SI
	MOVQ after+16(FP), DX
	MOVQ mask+24(FP), R8
	MOVQ oldest+32(FP), R9
	MOVQ c+64(FP), R10

	// The entries that others are with one base more.
	VMOVDQU64  narrow_parent(DI), Z0
	VMOVDQU64  (narrow_parent+64)(DI), Z1
	VPTERNLOGD $0xff, Z2, Z2, Z2
	CHILDREN(11)
	CHILDREN(10)
	CHILDREN(9)
	CHILDREN(8)
	CHILDREN(7)
	CHILDREN(6)
	CHILDREN(5)
	CHILDREN(4)
	CHILDREN(3)
	CHILDREN(2)
	CHILDREN(1)
	CHILDREN(0)
	VPBROADCASTD narrow_n(DI), Z3
	VMOVDQU32    laneConstants_count(R10), Z4
	VPCMPUD      $1, Z3, Z4, K6
	VPCMPUD      $1, Z3, Z2, K6, K6 // those that have a parent

	// Weights: Z7 of those that stay, Z10 to Z12 of moves.
	MOVL    $0xf, AX
	KMOVW   AX, K4
	MOVL    $0xf0, AX
	KMOVW   AX, K1
	MOVL    $0xf00, AX
	KMOVW   AX, K2
	MOVL    $0xf000, AX
	KMOVW   AX, K3
	VMOVUPS narrow_weight(DI), Z6
	FOUR(0, Z10, Z14, X5, 0)
	FOUR(4, Z11, Z15, X9, 1)
	VINSERTF32X4 $1, X9, Z5, Z5
	FOUR(8, Z12, Z16, X9, 2)
	VINSERTF32X4 $2, X9, Z5, Z5
	VBROADCASTSS stay+52(FP), Z7
	VMULPS       Z6, Z7, Z7

	// A stay and its parent's move are one sequence. Z22: the way to those that stay.
	VPBROADCASTD laneConstants_thirtyTwo(R10), Z31 // 32
	VPBROADCASTD laneConstants_three(R10), Z30 // 3
	VPSLLD       $2, Z2, Z17
	VPANDD       narrow_state(DI), Z30, Z18
	VPORD        Z18, Z17, Z17 // the move's number
	VMOVAPS      Z10, Z21
	VPERMT2PS    Z11, Z17, Z21
	VPTESTMD     Z31, Z17, K5
	VPERMPS      Z12, Z17, K5, Z21
	VCMPPS       $0x1e, Z7, Z21, K6, K5
	VADDPS       Z21, Z7, K6, Z7
	VMOVDQA32    Z2, K5, Z4
	VPSLLD       $16, Z4, Z22
	VPORD.BCST   laneConstants_moved(R10), Z22, K5, Z22
	VMULPS       Z5, Z7, Z23

	// R11: the moves that were added, a bit for each.
	VPMOVZXDQ     Y17, Z18
	VEXTRACTI64X4 $1, Z17, Y19
	VPMOVZXDQ     Y19, Z19
	VPBROADCASTQ  laneConstants_one(R10), Z20 // 1
	KSHIFTRW      $8, K6, K5
	VPSLLVQ.Z     Z18, Z20, K6, Z18
	VPSLLVQ.Z     Z19, Z20, K5, Z19
	VPORQ         Z19, Z18, Z18
	VEXTRACTI64X4 $1, Z18, Y19
	VPORQ         Z19, Z18, Z18
	VEXTRACTI32X4 $1, Z18, X19
	VPORQ         Z19, Z18, Z18
	VMOVDQA64     Z18, Z8
	VPSRLDQ       $8, X8, X9
	VPOR          X9, X8, X8
	VMOVQ         X8, R11

	// The highest, and those within the cut of it.
	VMAXPS Z14, Z15, Z27
	VMAXPS Z16, Z23, Z28
	VMAXPS Z28, Z27, Z27
	ALL(VMAXPS, Z27, Z28)
	VXORPS   X0, X0, X0
	VMOVSS   cut+48(FP), X1
	VUCOMISS X0, X1
	JEQ      all
	VMOVAPS  Z27, Z0
	VDIVSS   X1, X0, X0

all:
	VBROADCASTSS X0, Z0
	VCMPPS $0x1d, Z0, Z23, K4
	VCMPPS $0x1d, Z0, Z14, K5
	VCMPPS $0x1d, Z0, Z15, K6
	VCMPPS $0x1d, Z0, Z16, K7
	KUNPCKWD K4, K5, K5
	KUNPCKWD K6, K7, K7
	KUNPCKDQ K5, K7, K7
	KMOVQ  K7, R13
	MOVQ   narrow_n(DI), CX
	MOVQ   $-1, AX
	BZHIQ  CX, AX, BX
	SHLQ   $2, CX
	BZHIQ  CX, AX, AX
	ANDNQ  AX, R11, AX
	SHLQ   $16, AX
	ORQ    BX, AX
	ANDQ   AX, R13
	POPCNTQ R13, CX
	KMOVQ  R13, K4
	VMOVDQU8 laneConstants_numbers(R10), Z28
	VPCOMPRESSB.Z Z28, K4, Z28
	MOVQ   width+40(FP), R12
	CMPQ   CX, R12
	JGT    rank

chosen:
	VPMOVZXBD X28, Z28

	// Z28: the numbers of CX candidates that are kept. Z29: their weights. Z0: the entries that they come from, K5: by a move.
numbers:
	MOVL     $-1, AX
	BZHIL    CX, AX, AX
	KMOVW    AX, K7
	VMOVAPS  Z7, Z29
	VPERMT2PS Z10, Z28, Z29
	VMOVAPS  Z11, Z1
	VPERMT2PS Z12, Z28, Z1
	VPTESTMD Z31, Z28, K4
	VMOVAPS  Z1, K4, Z29
	VPBROADCASTD laneConstants_exponent(R10), Z1 // 254 in the exponent
	VPSRLD   $23, Z27, Z2
	VPSLLD   $23, Z2, Z2
	VPSUBD   Z2, Z1, Z1       // the scale
	VMULPS.Z Z1, Z29, K7, Z29
	VPSRLD   $4, Z28, Z1
	VPTESTMD Z1, Z1, K5
	VMOVDQA32 Z28, Z0
	VPSUBD.BCST laneConstants_sixteen(R10), Z28, Z1 // 16
	VPSRLD   $2, Z1, K5, Z0
	VPANDD   Z30, Z28, Z3     // the base
	VPERMD   narrow_recent(DI), Z0, Z4
	VPSLLD   $2, Z4, K5, Z4
	VPORD    Z3, Z4, K5, Z4   // the last bases
	VPANDD.BCST laneConstants_last(R10), Z4, Z5
	VPCONFLICTD.Z Z5, K7, Z5
	VPTESTMD Z5, Z5, K4
	KMOVW    K4, R11
	TESTL    R11, R11
	JNE      settle

	VPERMD     narrow_state(DI), Z0, Z6 // states
	VPSLLD     $2, Z6, K5, Z6
	VPORD      Z3, Z6, K5, Z6
	VPBROADCASTD R8, Z1
	VPANDD     Z1, Z6, Z6
	VPERMD     Z22, Z0, Z8     // ways
	VPSLLD     $16, Z0, K5, Z8
	VPORD.BCST laneConstants_moved(R10), Z8, K5, Z8
	VPORD      Z6, Z8, Z8
	MOVQ       row+56(FP), AX
	VMOVDQU32  Z8, (AX)

	// Hashes, and those of parents.
	VPMOVZXDQ     Y0, Z9
	VEXTRACTI64X4 $1, Z0, Y0
	VPMOVZXDQ     Y0, Z10
	VMOVDQU64     narrow_hash(DI), Z11
	VMOVDQA64     Z11, Z12
	VPERMT2Q      (narrow_hash+64)(DI), Z9, Z11
	VPERMT2Q      (narrow_hash+64)(DI), Z10, Z12
	VMOVDQU64     narrow_parent(DI), Z13
	VMOVDQA64     Z13, Z14
	VPERMT2Q      (narrow_parent+64)(DI), Z9, Z13
	VPERMT2Q      (narrow_parent+64)(DI), Z10, Z14
	KSHIFTRW      $8, K5, K6
	VMOVDQA64     Z11, K5, Z13
	VMOVDQA64     Z12, K6, Z14
	VPMOVZXDQ     Y3, Z9
	VEXTRACTI64X4 $1, Z3, Y3
	VPMOVZXDQ     Y3, Z10
	VPADDQ.BCST   laneConstants_one(R10), Z9, Z9
	VPADDQ.BCST   laneConstants_one(R10), Z10, Z10
	VPADDQ        Z11, Z9, Z9
	VPADDQ        Z12, Z10, Z10
	VPBROADCASTQ  laneConstants_multiplier(R10), Z1
	VPMULLQ       Z1, Z9, Z9
	VPMULLQ       Z1, Z10, Z10
	VPSRLQ        $29, Z9, Z15
	VPSRLQ        $29, Z10, Z16
	VPXORQ        Z15, Z9, K5, Z11
	VPXORQ        Z16, Z10, K6, Z12
	VMOVDQU64     Z11, narrow_hash(DI)
	VMOVDQU64     Z12, (narrow_hash+64)(DI)
	VMOVDQU64     Z13, narrow_parent(DI)
	VMOVDQU64     Z14, (narrow_parent+64)(DI)
	VMOVDQU32     Z4, narrow_recent(DI)
	VMOVDQU32     Z6, narrow_state(DI)
	VMOVUPS       Z29, narrow_weight(DI)
	MOVQ          CX, narrow_n(DI)
	MOVB          $1, ret+72(FP)
	VZEROUPPER
	RET

settle: // of those whose last bases are the same, which Z5 says, leaves the most probable one, in the first one's place
	VMOVDQU32 Z5, narrow_settled(DI)
	VMOVUPS   Z29, (narrow_settled+64)(DI)
	VMOVDQU32 laneConstants_count(R10), Z1
	VMOVDQU32 Z1, (narrow_settled+128)(DI)
	MOVL      R11, R12

same:
	TZCNTL R11, AX
	TZCNTL narrow_settled(DI)(AX*4), BX
	MOVL   (narrow_settled+64)(DI)(AX*4), R13
	CMPL   R13, (narrow_settled+64)(DI)(BX*4)
	JLE    less
	MOVL   R13, (narrow_settled+64)(DI)(BX*4)
	MOVL   AX, (narrow_settled+128)(DI)(BX*4)

less:
	BLSRL     R11, R11
	JNE       same
	VMOVDQU32 (narrow_settled+128)(DI), Z1
	VPERMD    Z28, Z1, Z28
	KMOVW     K7, AX
	ANDNL     AX, R12, AX
	KMOVW     AX, K4
	VPCOMPRESSD.Z Z28, K4, Z28
	POPCNTL   AX, CX
	JMP       numbers

rank: // more than R12 are within the cut: those remain of which fewer than so many are greater
	LEAQ narrow_guided(DI), R11
	COMPRESSED(Z23)
	COMPRESSED(Z14)
	COMPRESSED(Z15)
	COMPRESSED(Z16)
	VPTERNLOGD $0xff, Z9, Z9, Z9
	VBROADCASTSS laneConstants_negative(R10), Z8
	VMOVUPS   Z8, (R11)       // less than any
	VPBROADCASTD R12, Z17
	LEAQ narrow_guided(DI), R12
	XORL CX, CX               // sixteens
	XORL R13, R13             // a bit for each that remains

sixteen:
	MOVQ    CX, AX
	SHLQ    $6, AX
	VMOVUPS narrow_guided(DI)(AX*1), Z18
	VPXORD  Z19, Z19, Z19
	VPXORD  Z20, Z20, Z20
	MOVQ    R12, BX

greater:
	VCMPPS.BCST $0x11, (BX), Z18, K4
	VCMPPS.BCST $0x11, 4(BX), Z18, K5
	VPSUBD  Z9, Z19, K4, Z19
	VPSUBD  Z9, Z20, K5, Z20
	ADDQ    $8, BX
	CMPQ    BX, R11
	JLT     greater

	VPADDD  Z20, Z19, Z19
	VPCMPUD $1, Z17, Z19, K4
	KMOVW   K4, AX
	SHLQ    $4, CX
	SHLXQ   CX, AX, AX
	ORQ     AX, R13
	SHRQ    $4, CX
	INCQ    CX
	MOVQ    CX, AX
	SHLQ    $6, AX
	ADDQ    R12, AX
	CMPQ    AX, R11
	JLT     sixteen

	POPCNTQ R13, CX
	CMPQ    CX, width+40(FP)
	JNE     ties
	KMOVQ   R13, K4
	VPCOMPRESSB.Z Z28, K4, Z28
	JMP     chosen

ties:
	MOVB $0, ret+72(FP)
	VZEROUPPER
	RET
