import { Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useRef, useState } from "react";

const SEARCH_DELAY_MS = 250;
const SEARCH_MAX = 200;

export interface Option {
  readonly value: string;
  readonly label: string;
}

/** The look of the input, and the changes that it permits. */
interface InputProps {
  readonly label?: string;
  readonly "aria-label"?: string;
  readonly placeholder?: string;
  readonly size?: "xs";
  readonly flex?: number;
  readonly w?: number;
  readonly clearable?: boolean;
  readonly readOnly?: boolean;
  readonly allowDeselect?: boolean;
}

interface SearchSelectProps extends InputProps {
  /** Empty: no option is chosen. */
  readonly value: string;
  /** The label of the first value until the search finds it. */
  readonly firstLabel: string;
  /** A hook that returns the options that the server finds by a text. Empty: the first ones. */
  readonly useFound: (text: string) => readonly Option[];
  /** Receives the value of an option. Empty: the input was cleared. */
  readonly onChange: (value: string) => void;
}

/** A select whose options the server searches by what is typed. The chosen option stays, also if a search does not find it. */
export function SearchSelect({ value, firstLabel, useFound, onChange, ...input }: SearchSelectProps) {
  const [text, setText] = useState("");
  const [searched] = useDebouncedValue(text, SEARCH_DELAY_MS);
  // The input shows the label of the chosen option, which is no search.
  const labels = useRef(new Map([[value, firstLabel]]));
  const found = useFound([...labels.current.values()].includes(searched) ? "" : searched);
  const known = found.find((option) => option.value === value);
  if (known !== undefined) labels.current.set(value, known.label);
  const options = value === "" || known !== undefined ? [...found] : [...found, { value, label: labels.current.get(value) ?? value }];
  return <Select {...input} data={options} value={value || null} onChange={(chosen) => onChange(chosen ?? "")} searchable onSearchChange={(typed) => setText(typed.slice(0, SEARCH_MAX))} />;
}
