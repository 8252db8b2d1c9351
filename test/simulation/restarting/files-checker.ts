/**
 * The invariants of the files of processes. P2: no process is stopped before the files are there that its claim names. P6: at
 * rest each process runs with the files that are expected, and a verdict has named what held it.
 */
import type { ProcessCall } from "../../../functions/advance-process-restart/process-manager/decide-call.ts";
import type { StoredPod } from "../../fake-cluster/objects.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import type { Checker } from "../checker.ts";
import type { ProcessSecrets } from "./secrets.ts";
import type { SimulatedManager } from "./simulated-process.ts";

export interface FilesCheckerOptions {
  readonly secrets: ProcessSecrets;
  readonly pods: () => readonly StoredPod[];
  readonly managerOf: (pod: StoredPod) => SimulatedManager;
  /** The sum that the claim of a restart names for the processes of a StatefulSet. */
  readonly claimedSum: (restartId: string, set: string) => string | undefined;
  /** The guard that is still to say what users have left wrong; undefined: it has, or nothing is wrong. */
  readonly blockedBy: () => string | undefined;
  readonly violate: (invariant: string, message: string) => void;
}

export class FilesChecker implements Checker {
  readonly invariants = ["P2", "P6"];
  readonly #options: FilesCheckerOptions;

  constructor(options: FilesCheckerOptions) {
    this.#options = options;
  }

  /** The runner begins to stop a process. */
  onStop(pod: StoredPod, { restartId, verb }: ProcessCall): void {
    const { claimedSum, managerOf, violate, secrets } = this.#options;
    const { name } = pod.metadata;
    const sum = claimedSum(restartId, setNameOf(name));
    if (verb !== "stop" || sum === undefined || managerOf(pod).hasFiles(sum)) return;
    violate("P2", `${restartId} stops ${name}, which does not have the ${secrets.describe(sum)} that its claim names`);
  }

  missing(): string | undefined {
    const { secrets, pods, managerOf, blockedBy } = this.#options;
    const blocked = blockedBy();
    if (blocked !== undefined) return `no verdict of the guard ${blocked} (P6)`;
    for (const pod of pods()) {
      const { name } = pod.metadata;
      const expected = secrets.sumIn(secrets.expectedOf(setNameOf(name)));
      const { runningSum } = managerOf(pod);
      if (runningSum !== expected)
        return `${name} runs with ${secrets.describe(runningSum ?? "none")}, and expected are ${secrets.describe(expected)} (P6)`;
    }
    return undefined;
  }
}
