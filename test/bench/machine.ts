/** The machine and the versions that the figures come from: without them the figures mean nothing. */
import { execFile } from "node:child_process";
import { cpus, loadavg, release, totalmem } from "node:os";
import { promisify } from "node:util";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { peerVersion } from "./contenders.ts";

export interface Machine {
  readonly processor: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly kernel: string;
  readonly node: string;
  readonly kubernetes: string;
  readonly etcd: string;
  readonly peer: string;
  /** The commit of this repository, with `+` if files differ from it. */
  readonly sluice: string;
  /** The same for the other checkout that takes part. */
  readonly against: string | undefined;
  /** Load in the minute before the control plane was started. */
  readonly load: number;
}

const run = promisify(execFile);

/** Load of other programs, which is visible only before our own begin: call it first. */
export function loadBefore(): number {
  return loadavg()[0] ?? 0;
}

export async function describeMachine(
  controlPlane: Pick<ControlPlane, "assets">,
  load: number,
  against: string | undefined,
): Promise<Machine> {
  const processors = cpus();
  return {
    processor: processors[0]?.model ?? "unknown",
    cores: processors.length,
    memoryBytes: totalmem(),
    kernel: release(),
    node: process.version,
    kubernetes: await firstMatch(`${controlPlane.assets}/kube-apiserver`, ["--version"], /v\S+/),
    etcd: await firstMatch(`${controlPlane.assets}/etcd`, ["--version"], /\d+\.\d+\.\d+/),
    peer: await peerVersion(),
    sluice: await commitOf(import.meta.dirname),
    against: against === undefined ? undefined : await commitOf(against),
    load,
  };
}

function commitOf(directory: string): Promise<string> {
  return firstMatch("git", ["-C", directory, "describe", "--always", "--dirty=+"], /\S+/);
}

async function firstMatch(file: string, args: readonly string[], pattern: RegExp): Promise<string> {
  try {
    const { stdout } = await run(file, args);
    return pattern.exec(stdout)?.[0] ?? "unknown";
  } catch {
    return "unknown";
  }
}

export function introduce(machine: Machine): string {
  const memory = `${Math.round(machine.memoryBytes / 1024 ** 3)} GiB`;
  const other = machine.against === undefined ? "" : ` against ${machine.against}`;
  return [
    `${machine.cores} x ${machine.processor}, ${memory}, Linux ${machine.kernel}, load before the start ${machine.load.toFixed(2)}`,
    `Kubernetes ${machine.kubernetes}, etcd ${machine.etcd}, Node ${machine.node}, Sluice ${machine.sluice}${other}, rollout-operator ${machine.peer}`,
  ].join("\n");
}
