"""Times PyTorch's LSTM layers in half precision, which cuDNN computes, as the kernels' are: five in turns with
sums, for widths and numbers of windows. A line of JSON for each."""

import json
import sys

try:
    import torch
except ImportError:
    sys.exit("torch: there is no PyTorch in this Python")
if not torch.cuda.is_available():
    sys.exit("torch: it finds no GPU")

STEPS, LAYERS = 256, 5
with torch.inference_mode():
    for width in (256, 112, 384):
        layers = [torch.nn.LSTM(width, width).cuda().half() for _ in range(LAYERS)]
        for windows in (128, 512, 2048, 4096, 8192):
            try:
                x = torch.randn(STEPS, windows, width, device="cuda", dtype=torch.half)

                def forward():
                    y = x
                    for i, layer in enumerate(layers):
                        z = y.flip(0) if i % 2 == 0 else y
                        z = layer(z)[0]
                        y = y + (z.flip(0) if i % 2 == 0 else z)
                    return y

                forward()
                took = []
                for _ in range(5):
                    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    begin.record()
                    forward()
                    end.record()
                    torch.cuda.synchronize()
                    took.append(begin.elapsed_time(end))
                ms = sorted(took)[2]
                print(json.dumps({"width": width, "windows": windows, "ms": round(ms, 3), "us_per_step": round(ms * 1e3 / STEPS / LAYERS, 3)}), flush=True)
            except torch.cuda.OutOfMemoryError:
                print(json.dumps({"width": width, "windows": windows, "out_of_memory": True}), flush=True)
