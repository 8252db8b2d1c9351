/** The output of `--help`: every setting, and every flag with its effect. */
import type { Setting } from "../../functions/shared/base/settings.ts";
import { flags } from "./flags-table.ts";
import { settingsTable } from "./settings.ts";

/** The whole text, without a line break at its end. */
export function help(): string {
  const settings = Object.values<Setting<unknown>>(settingsTable).map(({ name, fallback, meaning, grammar }) => {
    const value = fallback === "" ? grammar : `${grammar} (default: ${fallback})`;
    return row(name, 20, [...wrap(meaning, 90), ...wrap(`= ${value}`, 90)]);
  });
  const taken = flags.map(({ name, field, meaning }) => {
    const parts = [field === undefined ? "" : settingsTable[field].name, meaning ?? ""].filter(Boolean);
    return row(`-${name}`, 54, wrap(parts.join("; "), 56));
  });
  return [
    "Rolls StatefulSets zone by zone under one disruption budget, on the cluster of the current kubeconfig.",
    "",
    "  npm start [-- --help | --replay FILE | --check-uninstall]",
    "",
    "--replay decides on one CloudEvent or AdmissionReview of a file, in JSON, and says what each function decided",
    "and why. It looks at the cluster, writes nothing to it, and ends. FILE may be -, for standard input.",
    "",
    "--check-uninstall lists the objects that have a finalizer of Sluice, and what takes it off. It writes nothing",
    "to the cluster, and ends with 1 if there is such an object.",
    "",
    "Settings are environment variables:",
    "",
    ...settings,
    "",
    "rollout-operator's flags are accepted, too, in its syntax. Some stand for a setting; where both are given, the",
    "flag wins. The others change nothing, and the log says what happens instead. With any flag PORT is 8001 unless",
    "it is set.",
    "",
    ...taken,
    "",
    "SIGTERM or SIGINT ends it when the queued work is done, and where it answers reviews after SHUTDOWN_DELAY at the",
    "earliest; a second one ends it at once.",
  ].join("\n");
}

function row(name: string, width: number, lines: readonly string[]): string {
  return lines.map((line, index) => `  ${(index === 0 ? name : "").padEnd(width)}${line}`).join("\n");
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}
