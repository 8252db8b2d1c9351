/** Reads the main files of a Secret, whatever their bytes. */

import { messageOf } from "../../shared/base/error-message.ts";
import { parseYaml } from "../../shared/base/parse-yaml.ts";
import { type Coordinating, coordinatingOf } from "./decide-settings.ts";

const mainFiles = ["opensearch.yml", "elasticsearch.yml"];

/** The settings of the files, or which file cannot be parsed, and why. `data`: in base64, as in a Secret. */
export function readSettings(
  data: Readonly<Record<string, string>> = {},
): Coordinating | { readonly unreadable: string } {
  const settings = new Map<string, string>();
  for (const file of mainFiles) {
    if (!Object.hasOwn(data, file)) continue;
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(data[file] ?? "", "base64"));
      const document = parseYaml(text) ?? {};
      if (typeof document !== "object" || Array.isArray(document))
        return { unreadable: `${file} is no map of settings` };
      for (const [key, value] of coordinatingOf(document)) settings.set(key, value);
    } catch (error) {
      const [why] = messageOf(error).split("\n");
      return { unreadable: `${file} cannot be parsed: ${why}` };
    }
  }
  return settings;
}
