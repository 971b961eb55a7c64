"""Prints what the remora package (ont-remora 1.1.1) says of reads: judge.py MODEL <reads.jsonl"""
import json, sys, types
def stub(name, **kw):
    m = types.ModuleType(name); m.__dict__.update(kw); sys.modules[name] = m; return m
# Remora imports these for training alone.
class Module: pass
nn = stub("torch.nn", Module=Module)
stub("torch", nn=nn, Tensor=object)
stub("scipy", stats=stub("scipy.stats"))
stub("pandas")
stub("sklearn.metrics", confusion_matrix=None)
stub("sklearn", metrics=sys.modules["sklearn.metrics"])
stub("tqdm", tqdm=None)
stub("pkg_resources")
import numpy as np
for name, kind in (("int", int), ("bool", bool), ("long", np.int64), ("float", float)):
    np.__dict__.setdefault(name, kind)
import remora
# Python 3.11 refuses the array that is one of its defaults, which models give a value anyway.
path = remora.__path__[0] + "/refine_signal_map.py"
module = types.ModuleType("remora.refine_signal_map")
sys.modules[module.__name__] = module
exec(compile(open(path).read().replace("= DEFAULT_REFINE_SHORT_DWELL_PEN\n", "= None\n", 1), path, "exec"), module.__dict__)
from remora.data_chunks import RemoraRead
from remora.inference import call_read_mods
from remora.model_util import load_model
model, meta = load_model(sys.argv[1])
for line in sys.stdin:
    r = json.loads(line)
    read = RemoraRead(dacs=np.array(r["samples"], dtype=np.int16), shift=r["shift"], scale=r["scale"],
        seq_to_sig_map=np.array(r["starts"]), str_seq=r["bases"], read_id=r.get("id", ""))
    out, _, pos = call_read_mods(read, model, meta)
    order = np.argsort(pos, kind="stable")
    print(json.dumps({"places": [int(pos[i]) for i in order], "scores": [[float(v) for v in out[i]] for i in order], "shift": float(read.shift), "scale": float(read.scale)}))
