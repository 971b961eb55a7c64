"""Makes the small network for modified bases beside it, in Dorado's form, with random weights: modified.py FOLDER"""
import os,sys,torch
from torch import nn
torch.manual_seed(3)
d=sys.argv[1]; os.makedirs(d,exist_ok=True)
size,kmer,out=6,5,2
L=dict(sig_conv1=nn.Conv1d(1,4,5),sig_conv2=nn.Conv1d(4,16,5),sig_conv3=nn.Conv1d(16,size,9,3),seq_conv1=nn.Conv1d(4*kmer,16,5),seq_conv2=nn.Conv1d(16,size,13,3),merge_conv1=nn.Conv1d(2*size,size,5),lstm1=nn.LSTM(size,size),lstm2=nn.LSTM(size,size),fc=nn.Linear(size,out))
def save(n,t):
    m=nn.Module(); m.register_parameter("0",nn.Parameter((t.detach()*2).clone(),requires_grad=False)); torch.jit.script(m).save(os.path.join(d,n+".tensor"))
for n,l in L.items():
    for k,t in l.state_dict().items(): save(n+"."+k,t)
open(os.path.join(d,"config.toml"),"w").write('''[general]
model = "conv_lstm"

[model_params]
size = 6
kmer_len = 5
num_out = 2

[modbases]
mod_bases = "m"
offset = 0
mod_long_names_0 = "5mC"
chunk_context_0 = 50
chunk_context_1 = 50
kmer_context_bases_0 = 2
kmer_context_bases_1 = 2
motif = "CG"
motif_offset = 0

[refinement]
refine_do_rough_rescale = 0
''')
