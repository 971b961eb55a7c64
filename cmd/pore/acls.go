package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream/access"
	"github.com/porestream/porestream/stream/kafka"
)

// roleProcessor stands for the roles of all stages of a processor.
const roleProcessor = "processor"

type aclsConfig struct {
	kafka      cli.KafkaFlags
	log        cli.LogFlags
	roles      []string
	principal  string
	deployment access.Deployment
	apply      bool
}

func aclsCommand() *cobra.Command {
	var cfg aclsConfig
	cmd := &cobra.Command{
		Use:   "acls --role ROLE[,ROLE...] --principal User:NAME",
		Short: "Show or give the least rights that a part of the deployment needs at the brokers",
		Long: `Prints the commands of kafka-acls.sh that give a user the least rights of its
roles, or with --apply gives them. Roles: ingest, adaptive, basecall, variant,
methylate, annotate, watch, or processor for all but the first of these, as far as there is work
for them; consumer, notify, operator, admin.
docs/operate/security.md says who needs which.`,
		Example: `  pore acls --role ingest --principal User:lab-ingest
  pore acls --role processor --panels --principal User:processor --apply --brokers kafka:9092`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return acls(cmd.Context(), cfg, cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	flags.StringSliceVar(&cfg.roles, "role", nil, "what the user does; several separated by commas (required)")
	flags.StringVar(&cfg.principal, "principal", "", "who, as brokers name them: User:NAME (required)")
	flags.StringVar(&cfg.deployment.Group, "group", "porestream", "prefix of the consumer groups, as the processors have it")
	flags.BoolVar(&cfg.deployment.Panels, "panels", false, "samples are held against watch-lists")
	flags.BoolVar(&cfg.deployment.Adaptive, "adaptive", false, "reads are decided about while they are sequenced (docs/attach/adaptive.md)")
	flags.BoolVar(&cfg.deployment.Basecalls, "basecalls", false, "called reads are published (docs/consume/basecalls.md)")
	flags.BoolVar(&cfg.deployment.Methylation, "methylation", false, "modified bases are counted (docs/consume/methylation.md)")
	flags.BoolVar(&cfg.apply, "apply", false, "give the rights instead of printing commands")
	return cmd
}

func acls(ctx context.Context, cfg aclsConfig, stdout io.Writer) error {
	if len(cfg.roles) == 0 {
		return cli.Usagef("--role is required: %s or %s", strings.Join(access.Roles(), ", "), roleProcessor)
	}
	if kind, name, ok := strings.Cut(cfg.principal, ":"); !ok || kind == "" || name == "" {
		return cli.Usagef("--principal %q: want User:NAME", cfg.principal)
	}
	cfg.deployment.Prefix = cfg.kafka.Prefix
	var rights []access.Right
	for _, role := range expandRoles(cfg.roles, cfg.deployment) {
		more, err := cfg.deployment.Rights(role)
		if err != nil {
			return cli.Usagef("--role: %w", err)
		}
		rights = append(rights, more...)
	}
	if !cfg.apply {
		bootstrap := cmp.Or(strings.Join(cfg.kafka.Brokers, ","), "localhost:9092")
		for _, command := range access.Commands(bootstrap, cfg.principal, rights) {
			fmt.Fprintln(stdout, command)
		}
		return nil
	}
	client, err := connect(ctx, &cfg.kafka, &cfg.log)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Grant(ctx, cfg.principal, rights); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s has %d rights\n", cfg.principal, len(rights))
	return nil
}

func expandRoles(roles []string, d access.Deployment) []string {
	var all []string
	for _, role := range roles {
		if role != roleProcessor {
			all = append(all, role)
			continue
		}
		all = append(all, access.RoleBasecall, access.RoleAlign, access.RoleVariant, access.RoleAnnotate, access.RolePage)
		if d.Panels {
			all = append(all, access.RoleWatch)
		}
		if d.Methylation {
			all = append(all, access.RoleMethylate)
		}
		if d.Adaptive {
			all = append(all, access.RoleAdaptive)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// connect reaches the cluster that the flags name.
func connect(ctx context.Context, flags *cli.KafkaFlags, log *cli.LogFlags) (*kafka.Client, error) {
	logger, err := log.Logger(os.Stderr)
	if err != nil {
		return nil, err
	}
	cfg, err := flags.Config(logger, nil)
	if err != nil {
		return nil, err
	}
	return kafka.Connect(ctx, cfg)
}
