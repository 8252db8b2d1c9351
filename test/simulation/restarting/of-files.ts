/** All that a seed has besides where the files of processes stand in Secrets: their users, a collector, and what is promised. */
import type { ReconcileReport } from "../../../functions/shared/contract/reporter.ts";
import type { StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { StandInDatabase } from "../../support/stand-in-database.ts";
import type { Checker } from "../checker.ts";
import type { Role } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import { collector } from "./collector.ts";
import { ConfigsChecker } from "./configs-checker.ts";
import { FilesChecker } from "./files-checker.ts";
import { FilesUsers } from "./files-users.ts";
import { modeKey, ProcessSecrets } from "./secrets.ts";
import type { SimulatedManager } from "./simulated-process.ts";

export interface OfFilesOptions {
  readonly run: SeedRun;
  readonly database: StandInDatabase;
  readonly sets: () => readonly StoredStatefulSet[];
  readonly pods: () => readonly StoredPod[];
  readonly managerOf: (pod: StoredPod) => SimulatedManager;
  readonly write: (pod: string, phase: string | null) => void;
  readonly claimedSum: (restartId: string, set: string) => string | undefined;
}

/** For so long something stays wrong after the function has said so, in milliseconds. */
const mendedAfterMs = 30_000;

export class OfFiles {
  readonly secrets: ProcessSecrets;
  readonly users: FilesUsers;
  readonly checker: FilesChecker;
  readonly checkers: readonly Checker[];
  readonly roles: readonly Role[];
  readonly #options: OfFilesOptions;
  /** The guard that is still to say what users have left wrong; undefined: it has, or nothing is wrong. */
  #blocked: string | undefined;
  #isDeciding = false;

  constructor(options: OfFilesOptions) {
    this.#options = options;
    const { run, sets, pods, managerOf, claimedSum } = options;
    this.secrets = new ProcessSecrets(options);
    const { secrets } = this;
    this.users = new FilesUsers({ ...options, secrets });
    const blockedBy = () => this.#blocked;
    this.checker = new FilesChecker({ secrets, pods, managerOf, claimedSum, blockedBy, violate: run.violate });
    const isCollecting = run.plan.restarts?.isCollecting === true;
    this.roles = isCollecting ? [collector(run)] : [];
    this.checkers = [this.checker, ...(isCollecting ? [new ConfigsChecker(run, sets)] : [])];
  }

  start(): void {
    this.secrets.start();
  }

  /** A user who reads what is wrong mends it. */
  noteVerdict({ guard, message }: Pick<ReconcileReport, "guard" | "message">): void {
    const { world, log } = this.#options.run;
    if (message.endsWith(`write ${modeKey} on it`)) this.#decideMode();
    if (guard !== this.#blocked) return;
    this.#blocked = undefined;
    world.timeline.after(mendedAfterMs, () => {
      log("users", "mend what they left");
      this.users.mend();
    });
  }

  /** Nothing shows what other files change: the user has all restart together. */
  #decideMode(): void {
    if (this.#isDeciding) return;
    this.#isDeciding = true;
    this.#options.run.world.timeline.after(mendedAfterMs, () => {
      this.#isDeciding = false;
      this.users.decideMode();
    });
  }

  makePeace(): void {
    this.users.mend();
    this.#blocked = this.users.hold();
  }

  /** Whether the node of a pod joins those that are members: all have the same setting. */
  canJoin(pod: StoredPod): boolean {
    const { pods, managerOf, database } = this.#options;
    const setting = this.secrets.settingOf(managerOf(pod).runningSum);
    const others = pods().filter((one) => one.metadata.uid !== pod.metadata.uid && managerOf(one).isRunning);
    const members = others.filter(({ metadata }) => database.node(metadata.name).isMember);
    return members.every((one) => this.secrets.settingOf(managerOf(one).runningSum) === setting);
  }
}
