/** Users who change the Secrets with the files of processes: good ones, broken ones, one after the other. */
import type { StoredPod, StoredStatefulSet } from "../../fake-cluster/objects.ts";
import { setNameOf } from "../../support/checkers/raw.ts";
import type { SeedRun } from "../seed.ts";
import type { Content, ProcessSecrets } from "./secrets.ts";

export interface FilesUsersOptions {
  readonly run: SeedRun;
  readonly secrets: ProcessSecrets;
  readonly sets: () => readonly StoredStatefulSet[];
}

export class FilesUsers {
  readonly #options: FilesUsersOptions;
  #version = 1;
  readonly #setting = "one";

  constructor(options: FilesUsersOptions) {
    this.#options = options;
  }

  /** What they may do next, where chance has drawn a pod. */
  deedsTo({ metadata }: StoredPod): readonly (() => void)[] {
    const set = setNameOf(metadata.name);
    return [() => this.#change(set)];
  }

  #change(set: string): void {
    this.#write(set, { version: ++this.#version, kind: "good", setting: this.#setting });
  }

  #write(set: string, content: Content): void {
    const { secrets, run } = this.#options;
    const name = secrets.expectedOf(set);
    if (secrets.find(name) === undefined) return;
    secrets.write(name, content);
    run.log("users", `${name} gets ${secrets.describe(secrets.sumIn(name))}`);
  }
}
