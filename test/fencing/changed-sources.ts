/** Processes of the product in which a hook of the module loader replaces pieces of their source. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const changedSourcesVariable = "SLUICE_TEST_CHANGED_SOURCES";

export interface ChangedSource {
  readonly file: string;
  /** Stands in the file once. */
  readonly text: string;
  readonly instead: string;
}

/** The environment of a process that runs the sources with these changes. */
export function environmentWith(changes: readonly ChangedSource[]): Readonly<Record<string, string>> {
  const hook = pathToFileURL(join(import.meta.dirname, "change-sources.ts")).href;
  return {
    [changedSourcesVariable]: JSON.stringify(changes),
    NODE_OPTIONS: `--disable-warning=ExperimentalWarning --import=${hook}`,
  };
}

const inFence = (file: string, text: string, instead: string): ChangedSource => ({
  file: `functions/fence-node/${file}`,
  text,
  instead,
});

/** The times of `fence-node` that have no setting, scaled down as those of the agents. None of them is part of T. */
export const shortenedTimes: readonly ChangedSource[] = [
  inFence("function.ts", "everySeconds: 10,", "everySeconds: 1,"),
  inFence("survey-agents.ts", "surveyEveryMs = 60_000;", "surveyEveryMs = 2_000;"),
  inFence("survey-agents.ts", "surveyAgainMs = 8_000;", "surveyAgainMs = 800;"),
  inFence("decide-relapse.ts", "unknownForMs = 60_000;", "unknownForMs = 3_000;"),
  inFence("decide-brakes.ts", "slotLastsMs = 600_000;", "slotLastsMs = 12_000;"),
];
