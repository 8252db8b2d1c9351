/**
 * Decides what is written into the settings of a database while a process restarts, and what undoes that. Pure.
 *
 * Beside the setting stands a marker with the id of the restart and the earlier value, so that the database itself says which
 * restart has changed it. What another client sets meanwhile stands afterwards.
 *
 * The database may carry out a request long after it was sent, while another restart has its own restriction there. So each
 * request writes both keys: after it either the setting is restricted and a marker says what it was, or no marker stands and
 * the setting is what the user had. A request that removed a marker alone would leave the database restricted for ever.
 */

import { fieldsOf } from "../../shared/base/fields.ts";

/** Where shards may be allocated. */
export const allocationSetting = "cluster.routing.allocation.enable";
/** The database accepts any key below `cluster.metadata`. */
export const markerSetting = "cluster.metadata.sluice_restart_hold";
/** Shards of which a copy is lost stay where they are, until their node is back. */
const restricted = "primaries";

export interface Marker {
  /** The restart that has changed the setting. */
  readonly id: string;
  /** The persistent value before that; undefined where there was none. */
  readonly previous: string | undefined;
}

/** The persistent settings. Transient ones vanish when every process stops, and are never touched. */
export interface Allocation {
  readonly value: string | undefined;
  readonly marker: Marker | undefined;
}

/** Persistent settings to write by one request; null removes one. */
export type SettingsChange = Readonly<Record<string, string | null>>;

const beforePrevious = ";previous=";

export function formatMarker({ id, previous = "" }: Marker): string {
  return `${id}${beforePrevious}${previous}`;
}

/** Undefined for a text that {@link formatMarker} has not made. */
export function parseMarker(text: string): Marker | undefined {
  const end = text.indexOf(beforePrevious);
  if (end <= 0) return undefined;
  const previous = text.slice(end + beforePrevious.length);
  return { id: text.slice(0, end), previous: previous === "" ? undefined : previous };
}

/** The settings in the answer of a database; undefined for another document, and for a marker that Sluice has not written. */
export function readAllocation(document: unknown): Allocation | undefined {
  const persistent = fieldsOf(fieldsOf(document)?.persistent);
  if (persistent === undefined) return undefined;
  const { [allocationSetting]: value, [markerSetting]: text } = persistent;
  const marker = typeof text === "string" ? parseMarker(text) : undefined;
  if (marker === undefined && text !== undefined) return undefined;
  if (value !== undefined && typeof value !== "string") return undefined;
  return { value, marker };
}

/** What begins a restart; undefined where its marker stands already, whatever the value is by now. */
export function decideRestriction({ value, marker }: Allocation, id: string): SettingsChange | undefined {
  if (marker?.id === id) return undefined;
  // One group has one restart at a time, so that another marker is a left-over, and this value was its own.
  const previous = marker !== undefined && value === restricted ? marker.previous : value;
  return { [allocationSetting]: restricted, [markerSetting]: formatMarker({ id, previous }) };
}

/** What ends a restart; undefined where its marker does not stand, so that nothing is to be undone. */
export function decideRelease({ value, marker }: Allocation, id: string): SettingsChange | undefined {
  if (marker?.id !== id) return undefined;
  const users = value === restricted ? marker.previous : value;
  return { [allocationSetting]: users ?? null, [markerSetting]: null };
}
