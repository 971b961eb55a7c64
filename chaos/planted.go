package main

import "github.com/spf13/cobra"

func plantedCommand(cfg *config) *cobra.Command {
	return &cobra.Command{Use: "planted", Hidden: true, RunE: func(cmd *cobra.Command, _ []string) error { return nil }}
}
