import { load } from "js-yaml";

/** The one document of a text in YAML 1.2; undefined for a text without any. Throws Error with the place of a mistake. */
export function parseYaml(text: string): unknown {
  return text.trim() === "" ? undefined : load(text);
}
