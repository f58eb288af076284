"""What models of your own need, under one name, by role; the rest is in its package.

    import deep_metric_learning as dml

    loss = dml.ProxyAnchorLoss(num_classes=100, embedding_dim=128)

A name is imported on its first use. The import also lets `keras.models.load_model` find the classes of this project.
"""

from typing import TYPE_CHECKING

from common import (
    PROJECT as PROJECT,  # fails if another `common` hides that of deep-metric-learning: rename it
    __version__ as __version__,
)
from common.lazy_names import import_when_used

if TYPE_CHECKING:
    # Models and callbacks.
    # Chance-constrained projections.
    from ccp_dml import (
        AlternatingProjections,
        ChanceConstrainedLoss,
        ChanceConstrainedModel,
        ClassPools,
        ProjectionRules,
        ProximalTerm,
        SampleBasedLoss,
        choose_representatives,
        sample_pools,
    )

    # Networks.
    from common.backbones import (
        bn_inception,
        cut_network,
        efficientnet_lite0,
        enable_lora,
        freeze_batch_norm,
        keras_backbone,
        keras_hub_backbone,
        merge_lora,
        mobilenet_v2,
        resnet50,
        vision_transformer,
        vit_base_16,
        vit_small_16,
    )

    # Batches.
    from common.data import (
        ClassBalancedBatches,
        Examples,
        HierarchicalBatches,
        MPerClassBatches,
        NoAugmentation,
        training_batches,
    )

    # Deployment and search.
    from common.deployment import Embedder, ImagePreprocessing, deployable_model, load_embedder, save_model
    from common.diagnostics import alignment, diagnose, evaluate_clustering, uniformity

    # Losses.
    from common.losses import (
        AngularLoss,
        ArcFaceLoss,
        CircleLoss,
        CodingRateLoss,
        ContrastiveLoss,
        CosFaceLoss,
        CosineContrastiveLoss,
        CrossBatchMemoryLoss,
        FastAPLoss,
        HIERLoss,
        HistogramLoss,
        HyperbolicLoss,
        KoLeoLoss,
        LiftedStructureLoss,
        MarginLoss,
        MatryoshkaLoss,
        MetricLoss,
        MinedLoss,
        MultiSimilarityLoss,
        NormalizedSoftmaxLoss,
        NPairLoss,
        PenalizedNegativesLoss,
        ProxyAnchorLoss,
        ProxyNCALoss,
        QuadrupletLoss,
        RecallAtKLoss,
        RoadmapLoss,
        SelfDistillationLoss,
        SignalToNoiseLoss,
        SmoothAPLoss,
        SoftTripleLoss,
        SupervisedContrastiveLoss,
        ThresholdConsistentMarginLoss,
        TripletLoss,
        WeightedSumLoss,
    )

    # Miners.
    from common.miners import (
        batch_hard,
        distance_weighted,
        inter_class,
        intra_class,
        multi_similarity_pairs,
        pairs_of,
        random_triplets,
        semi_hard,
        soft_hard,
    )
    from common.ops.normalization import normalize

    # Poolings.
    from common.pooling import (
        CBAMPooling,
        ClassTokenPooling,
        CrossDimensionalPooling,
        DeLFPooling,
        FeaturePooling,
        GeneralizedMaxPooling,
        GeneralizedMeanPooling,
        GlobalAverageMaxPooling,
        GlobalAveragePooling,
        GlobalMaxPooling,
        NetVLADPooling,
        NormAttentionPooling,
        OptimalTransportPooling,
        SecondOrderAttentionPooling,
        SecondOrderPooling,
        WeightedPooling,
        WeldonPooling,
    )
    from common.references import CrossBatchMemory, ProxyBank, References, compare

    # Metrics.
    from common.retrieval import (
        evaluate_hierarchy,
        evaluate_retrieval,
        evaluate_with_junk,
        find_nearest_neighbors,
        hierarchical_average_precision,
        map_at_r,
        match_sequences,
        ndcg,
        open_set_rejection,
        precision_at_1,
        r_precision,
        recall_at_k,
        verify_pairs,
    )
    from common.training import (
        EmbeddingDiagnostics,
        EmbeddingHead,
        FusedAdam,
        FusedAdamW,
        InBatchPrecision,
        MetricModel,
        ProxyRateOptimizer,
        RetrievalEvaluation,
        choose_model,
        within_class_whitening,
    )

    # Generalised sum pooling.
    from gsp_dml import (
        CombinedSumHead,
        GeneralizedSumPooling,
        ZeroShotPredictionLoss,
        partial_transport,
        prototype_combination,
        weight_perplexity,
    )
    from photo_search.index import (
        EmbeddingIndex,
        QueryExpansion,
        Reranking,
        calibrate_rejection,
        calibrate_threshold,
        find_label_suspects,
        find_near_duplicates,
    )

import_when_used(__name__)
