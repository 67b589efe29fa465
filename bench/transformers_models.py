"""Models of transformers with small random configurations through torch.compile: are they one graph, right, and how long does compiling take?

    python bench/transformers_models.py [--only gpt2,bert] [--check] [--compile] [--seconds 300] [--json FILE]

`--check` (the default) runs each model's forward pass and a training step as one graph each, beside eager torch in float64.
`--compile` measures the first call of a training step (processor seconds of the process and its children) with an empty cache by
planish and by Inductor, and in a second process from planish's cache. Each is a process of its own.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent))
import report

TEXT: Final = {"vocab_size": 199, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
               "intermediate_size": 128, "max_position_embeddings": 128}  # fmt: skip
GROUPED: Final = {**TEXT, "num_key_value_heads": 2, "head_dim": 16}
IMAGE: Final = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
                "image_size": 32, "patch_size": 8}  # fmt: skip
STAGES: Final = {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]}

Inputs = Callable[[Any], dict[str, Any]]


def tokens(config: Any) -> dict[str, Any]:
    import torch

    return {"input_ids": torch.randint(3, 190, (2, 24))}


def masked_tokens(config: Any) -> dict[str, Any]:
    """A batch of two lengths."""
    import torch

    mask = torch.ones(2, 24, dtype=torch.long)
    mask[1, 17:] = 0
    return {**tokens(config), "attention_mask": mask}


def pixels(size: int = 32) -> Inputs:
    def inputs(config: Any) -> dict[str, Any]:
        import torch

        return {"pixel_values": torch.randn(2, 3, size, size)}

    return inputs


def sequences(config: Any) -> dict[str, Any]:
    """What an encoder and a decoder are given."""
    import torch

    return {**masked_tokens(config), "decoder_input_ids": torch.randint(3, 190, (2, 11))}


def spectrum(config: Any) -> dict[str, Any]:
    import torch

    return {
        "input_features": torch.randn(2, 16, 64),
        "decoder_input_ids": torch.randint(3, 90, (2, 11)),
    }


def waveform(config: Any) -> dict[str, Any]:
    import torch

    return {"input_values": torch.randn(2, 1600)}


CLASSIC: Final = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
                  "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}  # fmt: skip
AUDIO: Final = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
                "conv_dim": (16, 16, 16), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 2), "num_feat_extract_layers": 3,
                "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "vocab_size": 32}  # fmt: skip

MODELS: Final[dict[str, tuple[str, dict[str, Any], Inputs]]] = {
    # the eight that are named first
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 199, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}, tokens),
    "bert": ("BertForMaskedLM", TEXT, masked_tokens),
    "llama": ("LlamaForCausalLM", GROUPED, tokens),
    "vit": ("ViTForImageClassification", IMAGE, pixels()),
    "resnet": ("ResNetForImageClassification", {**STAGES, "layer_type": "bottleneck"}, pixels(64)),
    "whisper": ("WhisperForConditionalGeneration", {**CLASSIC, "vocab_size": 199, "num_mel_bins": 16, "max_source_positions": 32, "max_target_positions": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "suppress_tokens": None, "begin_suppress_tokens": None}, spectrum),
    "clip_text": ("CLIPTextModel", TEXT, masked_tokens),
    "convnext": ("ConvNextForImageClassification", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]}, pixels(64)),
    # further ones
    "t5": ("T5ForConditionalGeneration", {"vocab_size": 199, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}, sequences),
    "mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 8}, tokens),
    "qwen2": ("Qwen2ForCausalLM", GROUPED, tokens),
    "qwen3": ("Qwen3ForCausalLM", GROUPED, tokens),
    "gemma": ("GemmaForCausalLM", GROUPED, tokens),
    "gemma2": ("Gemma2ForCausalLM", GROUPED, tokens),
    "gemma3": ("Gemma3ForCausalLM", GROUPED, tokens),
    "phi": ("PhiForCausalLM", TEXT, tokens),
    "phi3": ("Phi3ForCausalLM", {**GROUPED, "pad_token_id": 0}, tokens),
    "opt": ("OPTForCausalLM", {"vocab_size": 199, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "max_position_embeddings": 128, "word_embed_proj_dim": 64}, masked_tokens),
    "bloom": ("BloomForCausalLM", {"vocab_size": 199, "hidden_size": 64, "n_layer": 2, "n_head": 4}, masked_tokens),
    "falcon": ("FalconForCausalLM", {"vocab_size": 199, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}, tokens),
    "gpt_neox": ("GPTNeoXForCausalLM", TEXT, tokens),
    "gptj": ("GPTJForCausalLM", {"vocab_size": 199, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "rotary_dim": 8}, tokens),
    "mixtral": ("MixtralForCausalLM", {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}, tokens),
    "mamba": ("MambaForCausalLM", {"vocab_size": 199, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8}, tokens),
    "roberta": ("RobertaForMaskedLM", {**TEXT, "max_position_embeddings": 130}, masked_tokens),
    "distilbert": ("DistilBertForMaskedLM", {"vocab_size": 199, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}, masked_tokens),
    "albert": ("AlbertForMaskedLM", {**TEXT, "embedding_size": 32}, masked_tokens),
    "electra": ("ElectraForMaskedLM", {**TEXT, "embedding_size": 32}, masked_tokens),
    "deberta": ("DebertaForMaskedLM", {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, masked_tokens),
    "deberta_v2": ("DebertaV2ForMaskedLM", {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16}, masked_tokens),
    "mpnet": ("MPNetForMaskedLM", TEXT, masked_tokens),
    "modernbert": ("ModernBertForMaskedLM", {**TEXT, "pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}, masked_tokens),
    "bart": ("BartForConditionalGeneration", {**CLASSIC, "vocab_size": 199, "max_position_embeddings": 128}, sequences),
    "marian": ("MarianMTModel", {**CLASSIC, "vocab_size": 199, "max_position_embeddings": 128, "pad_token_id": 0, "decoder_start_token_id": 0}, sequences),
    "pegasus": ("PegasusForConditionalGeneration", {**CLASSIC, "vocab_size": 199, "max_position_embeddings": 128}, sequences),
    "clip_vision": ("CLIPVisionModel", IMAGE, pixels()),
    "siglip_vision": ("SiglipVisionModel", IMAGE, pixels()),
    "dinov2": ("Dinov2ForImageClassification", IMAGE, pixels()),
    "deit": ("DeiTForImageClassification", IMAGE, pixels()),
    "beit": ("BeitForImageClassification", IMAGE, pixels()),
    "swin": ("SwinForImageClassification", {"embed_dim": 16, "depths": [1, 1, 2], "num_heads": [2, 2, 4], "window_size": 4, "image_size": 32, "patch_size": 2}, pixels()),
    "swinv2": ("Swinv2ForImageClassification", {"embed_dim": 16, "depths": [1, 1, 2], "num_heads": [2, 2, 4], "window_size": 4, "image_size": 32, "patch_size": 2}, pixels()),
    "convnextv2": ("ConvNextV2ForImageClassification", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]}, pixels(64)),
    "regnet": ("RegNetForImageClassification", {**STAGES, "groups_width": 8}, pixels(64)),
    "mobilenet_v2": ("MobileNetV2ForImageClassification", {"depth_multiplier": 0.25, "image_size": 32}, pixels(64)),
    "mobilevit": ("MobileViTForImageClassification", {"hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 24, 32, 48, 64, 96], "image_size": 64, "patch_size": 2}, pixels(64)),
    "segformer": ("SegformerForSemanticSegmentation", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4], "decoder_hidden_size": 32}, pixels(64)),
    "poolformer": ("PoolFormerForImageClassification", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1]}, pixels(64)),
    "efficientnet": ("EfficientNetForImageClassification", {"width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320, "image_size": 64}, pixels(64)),
    "pvt_v2": ("PvtV2ForImageClassification", {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 3, 4], "image_size": 64}, pixels(64)),
    "detr": ("DetrForObjectDetection", {**CLASSIC, "num_queries": 7, "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": {"model_type": "resnet", **STAGES, "out_features": ["stage4"]}}, pixels(64)),
    "wav2vec2": ("Wav2Vec2ForCTC", {**AUDIO, "apply_spec_augment": False}, waveform),
    "hubert": ("HubertForCTC", {**AUDIO, "apply_spec_augment": False}, waveform),
    "speech_to_text": ("Speech2TextForConditionalGeneration", {**CLASSIC, "vocab_size": 199, "num_mel_bins": 16, "input_feat_per_channel": 16, "max_source_positions": 64, "max_target_positions": 32}, lambda config: {"input_features": spectrum(config)["input_features"].transpose(1, 2).contiguous(), "decoder_input_ids": spectrum(config)["decoder_input_ids"]}),
}  # fmt: skip
"""Model, its configuration where it differs from the default, and what it is given; dropout is off, so that runs can be compared."""

QUIET: Final = {"use_cache": False, "attention_dropout": 0.0, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
                "dropout": 0.0, "activation_dropout": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
                "dropout_rate": 0.0, "hidden_dropout": 0.0, "drop_path_rate": 0.0, "classifier_dropout_prob": 0.0,
                "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "layerdrop": 0.0, "feat_proj_dropout": 0.0,
                "final_dropout": 0.0, "seq_classif_dropout": 0.0, "drop_connect_rate": 0.0}  # fmt: skip


def model_of(name: str) -> tuple[Any, dict[str, Any]]:
    """A model with random weights and what it is given."""
    import torch
    import transformers

    kind, configuration, inputs = MODELS[name]
    torch.manual_seed(0)
    model_class = getattr(transformers, kind)
    config = model_class.config_class(**{**QUIET, **configuration})
    model = model_class(config)
    return model, inputs(config)


def loss_of(result: Any) -> Any:
    """A number of all the floats that a model gives."""
    import torch

    tensors = [t for t in torch.utils._pytree.tree_leaves(tuple(result.values())) if t.is_floating_point()]
    return sum(t.square().mean() for t in tensors)


def step_of(model: Any, given: dict[str, Any], run: Any) -> list[Any]:
    """The gradients of a training step."""
    import torch

    model.zero_grad()
    loss_of(run(**given)).backward()
    return [p.grad if p.grad is not None else torch.zeros(()) for p in model.parameters()]


def distance(computed: list[Any], exact: list[Any]) -> float:
    """The largest distance by norm; what is small beside the rest is compared with the rest."""
    whole = max(float(e.double().norm() / max(e.numel(), 1) ** 0.5) for e in exact)
    return max(
        float(
            (f.double() - e.double()).norm()
            / max(float(e.double().norm()), 1e-2 * whole * e.numel() ** 0.5, 1e-30)
        )
        for f, e in zip(computed, exact, strict=True)
    )


def checked(name: str) -> dict[str, Any]:
    """One model in this process: graphs, nodes handed back, distances from float64 of ours and of eager torch's."""
    import torch

    import planish.torch

    model, given = model_of(name)
    wide = copy.deepcopy(model).double()
    wide_given = {k: v.double() if v.is_floating_point() else v for k, v in given.items()}
    leaves = torch.utils._pytree.tree_leaves
    row: dict[str, Any] = {"model": name}
    model.eval(), wide.eval()
    run = torch.compile(model, backend="planish", fullgraph=True)
    with torch.no_grad():
        results = [
            leaves(tuple(side(**values).values()))
            for side, values in ((run, given), (model, given), (wide, wide_given))
        ]
    results = [[t for t in side if t.is_floating_point()] for side in results]
    forward = planish.torch.report(reset=True)
    row["forward"] = {"graphs": forward.graphs, "segments": forward.segments, "back": {f"{op}: {why}": n for (op, why), n in forward.handed_back.items()},
                      "ours": distance(results[0], results[2]), "eager": distance(results[1], results[2])}  # fmt: skip
    torch._dynamo.reset()
    model.train(), wide.train()
    state = copy.deepcopy(model.state_dict())
    try:
        ours = step_of(model, given, torch.compile(model, backend="planish", fullgraph=True))
    except torch._dynamo.exc.Unsupported as error:
        # the model itself asks for numbers on the way (whether to leave a layer out): no backend gets one graph of it
        row["breaks"] = str(error).splitlines()[0]
        torch._dynamo.reset()
        model.load_state_dict(state)
        ours = step_of(model, given, torch.compile(model, backend="planish"))
    training = planish.torch.report(reset=True)
    model.load_state_dict(state)
    eager = step_of(model, given, model)
    exact = step_of(wide, wide_given, wide)
    row["training"] = {"graphs": training.graphs, "segments": training.segments, "back": {f"{op}: {why}": n for (op, why), n in training.handed_back.items()},
                       "ours": distance(ours, exact), "eager": distance(eager, exact)}  # fmt: skip
    return row


def spent() -> float:
    """Processor seconds of this process and its children."""
    return sum(os.times()[:4])


def first_call(name: str, backend: str) -> dict[str, Any]:
    """The first training step of a compiled model in this process."""
    import torch

    model, given = model_of(name)
    torch.set_num_threads(1)
    run = torch.compile(model, backend=backend, fullgraph=True)
    begin, wall = spent(), perf_counter()
    step_of(model, given, run)
    return {"processor": spent() - begin, "wall": perf_counter() - wall}


def told(arguments: list[str], seconds: float, **environment: str) -> dict[str, Any]:
    """What a process of its own says."""
    command = [sys.executable, __file__, "--one", *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done in {seconds:.0f} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {
            "failed": "\n".join(done.stderr.strip().splitlines()[-6:])[-900:] or f"exit {done.returncode}"
        }
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def check(name: str, seconds: float) -> dict[str, Any]:
    row = told([name, "check"], seconds)
    if "failed" in row:
        print(f"{name:16} FAILED {row['failed']}", flush=True)
        return row
    notes = []
    for part in ("forward", "training"):
        said = row[part]
        wrong = said["ours"] > max(2e-5, 4 * said["eager"])
        whole = said["graphs"] == said["segments"] and not said["back"]
        broken = f", cut for any backend: {row['breaks']}" if part == "training" and "breaks" in row else ""
        notes.append(
            f"{part} {'WRONG' if wrong else 'right'} {said['ours']:.1e} (eager {said['eager']:.1e})"
            + ("" if whole else f" {said['segments']} segments, by torch {said['back']}")
            + broken
        )
        said["right"], said["whole"] = not wrong, whole
    print(f"{name:16} {'   '.join(notes)}", flush=True)
    return row


def compile_times(name: str, seconds: float) -> dict[str, Any]:
    folder = tempfile.mkdtemp()
    try:
        row = {
            side: told(
                [name, backend],
                seconds,
                PLANISH_CACHE_DIR=f"{folder}/planish",
                TORCHINDUCTOR_CACHE_DIR=f"{folder}/inductor",
            )
            for side, backend in (
                ("first", "planish"),
                ("second", "planish"),
                ("inductor", "inductor"),
                ("capture", "aot_eager"),
            )
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if any("failed" in said for said in row.values()):
        print(f"{name:16} FAILED {row}", flush=True)
    else:
        cost = {side: said["processor"] for side, said in row.items()}
        print(
            f"{name:16} first {cost['first']:6.1f} s  second process {cost['second']:6.1f} s  Inductor {cost['inductor']:6.1f} s  capture alone {cost['capture']:6.1f} s"
            f"  by Inductor {cost['first'] / cost['inductor']:.2f}, second by first {cost['second'] / cost['first']:.2f}",
            flush=True,
        )
    return row


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("one", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--one", dest="single", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=300)
    given = parser.parse_args()
    if given.single:
        name, what = given.one
        print(json.dumps(checked(name) if what == "check" else first_call(name, what)))
        return
    names = [name for name in given.only.split(",") if name] or list(MODELS)
    record: dict[str, Any] = {}
    if given.check or not given.compile:
        record["check"] = {name: check(name, given.seconds) for name in names}
        rows = [row for row in record["check"].values() if "forward" in row]
        for part in ("forward", "training"):
            right = [row for row in rows if row[part]["right"]]
            print(
                f"{part}: {len(right)} of {len(names)} right, {sum(row[part]['whole'] for row in right)} of them one graph by planish alone"
            )
    if given.compile:
        record["compile"] = {name: compile_times(name, given.seconds) for name in names}
    if given.json:
        given.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
