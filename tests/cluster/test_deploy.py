"""The configuration for KubeRay says what members need: a disk of their own each, and the secret everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_every_worker_has_a_disk_a_volume_and_the_secret():
    documents = list(yaml.safe_load_all((ROOT / "deploy" / "kuberay.yaml").read_text()))
    cluster = next(one for one in documents if one["kind"] == "RayCluster")["spec"]
    claims = {one["metadata"]["name"] for one in documents if one["kind"] == "PersistentVolumeClaim"}
    used, disks = set(), set()
    for group in cluster["workerGroupSpecs"]:
        assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 1  # two would share one disk's name
        resources = json.loads(json.loads(group["rayStartParams"]["resources"]))
        (disk,) = resources
        assert disk.startswith("lethevec_disk_")
        disks.add(disk)
        spec = group["template"]["spec"]
        mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
        assert mounts["data"]["mountPath"] == "/data/lethevec"
        assert mounts["secret"]["readOnly"]
        used.update(v["persistentVolumeClaim"]["claimName"] for v in spec["volumes"] if "persistentVolumeClaim" in v)
    assert used == claims
    assert len(disks) == len(cluster["workerGroupSpecs"]) == 3
    head = cluster["headGroupSpec"]["template"]["spec"]
    assert not any("persistentVolumeClaim" in volume for volume in head["volumes"])
